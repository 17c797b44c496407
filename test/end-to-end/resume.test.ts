// Resume over accumulated micro-batches, several shards and several passes, in both orders that shuffle. The same on a GPU is
// test/gpu/resume.test.ts; what else can befall a run that is resumed is in run.test.ts.
import { it } from 'vitest';
import { windowedFlags } from '../support/modern-models.ts';
import { expectResumedEqual } from '../support/resume.ts';

it.each([
  ['fp32', 'llmc'],
  ['fp32', 'sequence'],
  ['fp8', 'llmc'],
  ['fp32', 'sequence', windowedFlags],
  ['fp8', 'sequence', windowedFlags],
] as const)('40 steps are 20 and 20 more, bit for bit: %s, in the order %s, %s', (dtype, order, model?: string) =>
  expectResumedEqual({ device: 'cpu', dtype, order, microBatches: 2, model }),
);
