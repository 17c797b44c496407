// A run on the GPU that was stopped and resumed ends in the weights of one that went through, to the last bit. In bf16 and fp8 the
// gradients of a single micro-batch are kept otherwise than those of several.
import { it } from 'vitest';
import { describeCuda, hasCudaDtype } from '../support/backends.ts';
import { expectResumedEqual, type ResumeCase } from '../support/resume.ts';

const cases: readonly Omit<ResumeCase, 'device'>[] = [
  { dtype: 'fp32', order: 'llmc', microBatches: 2 },
  { dtype: 'fp32', order: 'sequence', microBatches: 2 },
  { dtype: 'bf16', order: 'llmc', microBatches: 2 },
  { dtype: 'bf16', order: 'sequence', microBatches: 2 },
  { dtype: 'bf16', order: 'llmc', microBatches: 1 },
  { dtype: 'fp8', order: 'llmc', microBatches: 1 },
  { dtype: 'fp8', order: 'llmc', microBatches: 2 },
];

describeCuda('resume', () => {
  it.each(cases.filter(({ dtype }) => hasCudaDtype(dtype)))(
    '40 steps are 20 and 20 more: $dtype, order $order, $microBatches micro-batches',
    (one) => expectResumedEqual({ device: 'cuda', ...one }),
  );
});
