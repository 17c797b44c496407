// Tensors in FP8, their bytes, and what an activation gives in FP8.
import { expect } from 'vitest';
import { blocksOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, largestOf, type Numbers, type Random } from '../../src/ops/cases/case-numbers.ts';
import { largestOfBlocks, perRow, scaleOf } from '../../src/ops/cases/fp8.ts';
import { activations } from '../../src/ops/cases/fp8-matmul.ts';
import type { TensorBench } from './tensors.ts';

/** A result in FP8, in both copies. */
export type Stored = Readonly<Record<'values' | 'scale' | 'columnwise' | 'columnwiseScale', Tensor>>;

/** Each activation, by the variant of its matmuls. */
export const activated = [
  { name: 'GELU', variant: 'gelu', ...activations.gelu },
  { name: 'the squared ReLU', variant: 'relu_squared', ...activations.reluSquared },
] as const;

/** Numbers [N,C] whose squares E4M3 holds with a scale for each row; rows and blocks of rows are of different size. */
export const drawPre = (N: number, C: number, random: Random): Float32Array =>
  Float32Array.from(random.integers(N * C, 10), (choice, index) => {
    const n = Math.floor(index / C);
    return [-2, -1.5, -1, -0.75, 0, 0.75, 1, 1.5, 2, 3][choice]! * 2 ** -((n % 3) + (n >> 9));
  });

/** The tensors that backward reads of a forward pass with these inputs of the activation, [N,C]; E4M3 holds their squares (drawPre). */
export function forwardTensors(bench: TensorBench, pre: Numbers, C: number) {
  const result = Float32Array.from(pre, activations.reluSquared.of);
  const scales = perRow(result, C, (row) => scaleOf(largestOf(row)));
  const values = result.map((value, index) => value / scales[Math.floor(index / C)]!);
  const N = scales.length;
  return {
    derivative: bench.tensor('derivative', [N, C], pre.map(activations.gelu.derivative), 'int8'),
    activated: bench.tensor('activated', [N, C], values, 'fp8'),
    activatedScale: bench.floats('activatedScale', [N], scales),
    activatedColumnwiseScale: bench.floats('activatedColumnwiseScale', [blocksOf(N)], largestOfBlocks(scales)),
  };
}

/** Both scales of a stored gradient are those of its bounds: norms [N] times boundOf(forward's scale). */
export function expectBackwardScales(
  { scale, columnwiseScale }: Stored,
  norms: Float32Array,
  { activatedScale, activatedColumnwiseScale }: ReturnType<typeof forwardTensors>,
  boundOf: (activatedScale: number) => number,
): void {
  const scalesOf = (own: Float32Array, forward: Float32Array) =>
    own.map((norm, index) => scaleOf(Math.fround(norm * boundOf(forward[index]!))));
  expect(floats(scale)).toEqual(scalesOf(norms, floats(activatedScale)));
  expect(floats(columnwiseScale)).toEqual(scalesOf(largestOfBlocks(norms), floats(activatedColumnwiseScale)));
}

/** Bytes that differ, by index; NaN has two. */
export function differences(actual: ArrayLike<number>, wanted: ArrayLike<number>): number[] {
  const canonical = (bits: number) => ((bits & 0x7f) === 0x7f ? 0x7f : bits);
  return Array.from(wanted, (_, i) => i).filter((i) => canonical(actual[i]!) !== canonical(wanted[i]!));
}

export const bytesOf = (tensor: Tensor): Uint8Array => tensor.read() as Uint8Array;
