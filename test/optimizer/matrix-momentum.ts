// An optimizer of whole matrices: the sum of all gradients of a matrix, each step shorter, divided by its Frobenius norm. A part
// of a matrix, or several matrices at once, would give other weights. For the CPU library only, where `enqueue` runs when called.
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import type { Optimizer, StateRow, UpdateContext, UpdatePart } from '../../src/optimizer/optimizer.ts';
import { isOfLayer } from './mixed.ts';

export class MatrixMomentum implements Optimizer {
  readonly name = 'matrix momentum';
  readonly rows: readonly StateRow[] = [
    { name: 'momentum', dtype: 'fp32', parameters: isOfLayer, granularity: 'matrix' },
  ];
  readonly scalars = [];
  /** The matrices of each call of `enqueue`. */
  readonly seen: UpdatePart[][] = [];

  enqueue({ step }: UpdateContext, parts: readonly UpdatePart[]): void {
    const matrices = parts.filter(({ state }) => state.momentum);
    this.seen.push(matrices);
    const block = step.read() as Float32Array;
    if (block[GPT2_STEP.GPT2_STEP_UPDATED] === 0) return;
    for (const { master, gradient, state } of matrices) {
      const [weights, gradients, momentum] = [master, gradient, state.momentum!].map(
        (tensor: Tensor) => tensor.read() as Float32Array,
      ) as [Float32Array, Float32Array, Float32Array];
      const sum = momentum.map((value, index) => 0.9 * value + gradients[index]!);
      const size = Math.sqrt(sum.reduce((total, value) => total + value * value, 0) / sum.length);
      const rate = block[GPT2_STEP.GPT2_STEP_LEARNING_RATE]! / size;
      state.momentum!.write(sum);
      master.write(weights.map((weight, index) => weight - rate * sum[index]!));
    }
  }
}
