// Contexts of bf16 that accumulate keep the gradients of matrices in fp32: the ops that write them, against their formulas in
// double from the rounded inputs. What is left is the error of fp32 sums.
import { it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { describeCuda } from '../support/backends.ts';
import { expectFormula } from '../support/tensors.ts';

describeCuda('bf16 that accumulates', () => {
  it.each([
    // k split over blocks, one block a tile, and lines that the tensor-core kernel does not take.
    ['matmul_backward_weight', { N: 3000, C: 136, O: 200 }, 1e-6 * Math.sqrt(3000)],
    ['matmul_backward_weight', { N: 40, C: 768, O: 768 }, 1e-6 * Math.sqrt(40)],
    ['matmul_backward_weight', { N: 50, C: 37, O: 24 }, 1e-6 * Math.sqrt(50)],
    ['embedding_backward', { B: 3, T: 300, C: 72, V: 500, kinds: 30 }, 1e-6],
  ] as const)('%s, %j', async (op, sizes, limit) => {
    using device = Device.open({ kind: 'cuda', dtype: 'bf16', accumulates: true });
    await expectFormula(device, op, sizes, limit, 5 * limit);
  });
});
