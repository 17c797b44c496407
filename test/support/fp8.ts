// Tensors in FP8, their bytes, and the ops that store what an activation gives in FP8.
import { expect } from 'vitest';
import { blocksOf, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, largestOf, type Numbers, type Random } from '../../src/ops/cases/case-numbers.ts';
import { largestOfBlocks, perRow, scaleOf } from '../../src/ops/cases/fp8.ts';
import { activations } from '../../src/ops/cases/fp8-matmul.ts';
import {
  fp8MatmulGeluBackwardInput,
  fp8MatmulGeluForward,
  fp8MatmulReluSquaredBackwardInput,
  fp8MatmulReluSquaredForward,
} from '../../src/ops/ops.generated.ts';
import type { TensorBench } from './tensors.ts';

/** Memory for a columnwise copy of [N,C]. (Products have no norms and ignore theirs.) */
export const emptyCopy = (bench: TensorBench, N: number, C: number) => ({
  columnwise: bench.tensor('columnwise', [C, groupsOf(N), 16], undefined, 'fp8'),
  columnwiseScale: bench.floats('columnwiseScale', [blocksOf(N)]),
  columnwiseNorm: bench.floats('columnwiseNorm', [blocksOf(N)]),
});

/** Memory for a result [N,C] of a product, in both copies. */
export const emptyResult = (bench: TensorBench, N: number, C: number) => ({
  ...{ values: bench.tensor('values', [N, C], undefined, 'fp8'), scale: bench.floats('scale', [N]) },
  ...emptyCopy(bench, N, C),
});

/** Each activation with its ops, which ignore the tensors that only the other's take. */
export const activated = [
  {
    ...{ name: 'GELU', ...activations.gelu },
    ...{ forward: fp8MatmulGeluForward, backward: fp8MatmulGeluBackwardInput },
  },
  {
    ...{ name: 'the squared ReLU', ...activations.reluSquared },
    ...{ forward: fp8MatmulReluSquaredForward, backward: fp8MatmulReluSquaredBackwardInput },
  },
];

/** Numbers [N,C] whose squares E4M3 holds with a scale for each row; rows and blocks of rows are of different size. */
export const drawPre = (N: number, C: number, random: Random): Float32Array =>
  Float32Array.from(random.integers(N * C, 10), (choice, index) => {
    const n = Math.floor(index / C);
    return [-2, -1.5, -1, -0.75, 0, 0.75, 1, 1.5, 2, 3][choice]! * 2 ** -((n % 3) + (n >> 9));
  });

/** What backward reads of a forward pass with these inputs of the activation, [N,C]; E4M3 holds their squares (drawPre). */
export function forwardTensors(bench: TensorBench, pre: Numbers, C: number) {
  const result = Float32Array.from(pre, activations.reluSquared.of);
  const scales = perRow(result, C, (row) => scaleOf(largestOf(row)));
  const values = result.map((value, index) => value / scales[Math.floor(index / C)]!);
  const N = scales.length;
  return {
    pre: bench.tensor('pre', [N, C], pre),
    activated: bench.tensor('activated', [N, C], values, 'fp8'),
    activatedScale: bench.floats('activatedScale', [N], scales),
    activatedColumnwiseScale: bench.floats('activatedColumnwiseScale', [blocksOf(N)], largestOfBlocks(scales)),
  };
}

/** Both scales of a stored gradient are those of its bounds: norms [N] times boundOf(forward's scale). */
export function expectBackwardScales(
  { scale, columnwiseScale }: ReturnType<typeof emptyResult>,
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
  return Array.from(wanted, (_, index) => index).filter(
    (index) => canonical(actual[index]!) !== canonical(wanted[index]!),
  );
}

export const bytesOf = (tensor: Tensor): Uint8Array => tensor.read() as Uint8Array;
