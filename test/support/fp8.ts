// Tensors in FP8, and their bytes.
import type { Tensor } from '../../src/native/buffer.ts';
import { blocksOf, groupsOf } from '../../src/ops/columnwise.ts';
import type { TensorBench } from './tensors.ts';

/** Memory for a columnwise copy of [N,C]. */
export const emptyCopy = (bench: TensorBench, N: number, C: number) => ({
  columnwise: bench.tensor('columnwise', [C, groupsOf(N), 16], undefined, 'fp8'),
  columnwiseScale: bench.floats('columnwiseScale', [blocksOf(N)]),
});

/** Bytes that differ, by index; NaN has two. */
export function differences(actual: ArrayLike<number>, wanted: ArrayLike<number>): number[] {
  const canonical = (bits: number) => ((bits & 0x7f) === 0x7f ? 0x7f : bits);
  return Array.from(wanted, (_, index) => index).filter(
    (index) => canonical(actual[index]!) !== canonical(wanted[index]!),
  );
}

export const bytesOf = (tensor: Tensor): Uint8Array => tensor.read() as Uint8Array;
