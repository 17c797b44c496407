// A run that was stopped and resumed against one that went through: what must be equal to the last bit, on any device.
import { expect } from 'vitest';
import type { OrderName } from '../../src/data/batches/order.ts';
import type { Dtype } from '../../src/native/device.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { Workplace } from './cli.ts';
import { figuresOf } from './figures.ts';

export interface ResumeCase {
  readonly device: 'cpu' | 'cuda';
  readonly dtype: Dtype;
  readonly order: OrderName;
  /** Micro-batches in a step. */
  readonly microBatches: 1 | 2;
  /** Options of another model than GPT-2. */
  readonly model?: string;
}

/**
 * 40 steps straight, and 20 and 20. A pass over the shards is an odd number of micro-batches, of which 40 steps take two
 * to four passes: shards and passes end within steps, before the stop and after it.
 */
export async function expectResumedEqual({ device, dtype, order, microBatches, model }: ResumeCase): Promise<void> {
  using place = new Workplace();
  // 9, 7 and 5 batches of 2 x 32 tokens.
  place.data({ train: [600, 500, 330], below: 257 });
  const options = [
    '--layers 2 --channels 128 --heads 2 --context 32 --batch 2 --seq 32 --steps 40 --data data',
    '--lr 1e-3 --warmup 5 --final-lr-frac 0.1 --weight-decay 0.1 --val-every 10 --val-steps 2 --sample-every 15',
    `--device ${device} --dtype ${dtype} --order ${order} --total-batch ${microBatches * 64}`,
    ...(model ? [model] : []),
  ];
  const train = (...args: string[]) => place.okHere(['train', ...args]);
  const saved = (out: string) => resolveCheckpoint(place.path(out)).manifest;

  await train(...options.join(' ').split(' '), '--out', 'straight');
  await train(...options.join(' ').split(' '), '--out', 'stopped', '--stop-after', '20');
  expect(saved('stopped')).toMatchObject({ step: 20, position: { epoch: microBatches === 2 ? 1 : 0 } });
  await train('--out', 'stopped', '--resume');

  const figures = figuresOf(place.path('straight'));
  // Steps, validations, samples, the closing line.
  expect(figures.length).toBe(40 + 5 + 3 + 1);
  expect(figures.at(-1)).toMatch(/"event":"done".*"weights":"[0-9a-f]{64}"/);
  expect(figuresOf(place.path('stopped'))).toEqual(figures);
  // The optimizer state, which no figure shows.
  const { files, position } = saved('straight');
  expect(position.epoch).toBe(microBatches === 2 ? 3 : 1);
  expect(saved('stopped')).toMatchObject({ step: 40, files, position });
}
