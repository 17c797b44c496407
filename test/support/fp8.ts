// Tensors in FP8, their bytes, and the ops that store what an activation gives in FP8.
import { expect } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import type { Device } from '../../src/native/device.ts';
import { blocksOf, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, largestOf, type Numbers, type Random } from '../../src/ops/cases/case-numbers.ts';
import { largestOfBlocks, perRow, scaleOf } from '../../src/ops/cases/fp8.ts';
import { activations } from '../../src/ops/cases/fp8-matmul.ts';
import { fp8MatmulBackwardInput, fp8MatmulForward } from '../../src/ops/ops.generated.ts';
import type { TensorBench } from './tensors.ts';

/** Memory for a columnwise copy of [N,C]. (Products have no norms and ignore theirs.) */
export const emptyCopy = (bench: TensorBench, N: number, C: number) => ({
  columnwise: bench.tensor('columnwise', [C, groupsOf(N), 16], undefined, 'fp8'),
  columnwiseScale: bench.floats('columnwiseScale', [blocksOf(N)]),
  columnwiseNorm: bench.floats('columnwiseNorm', [blocksOf(N)]),
});

/** Memory for a result [N,C] of a product, in both copies, and for GELU's derivative. */
export const emptyResult = (bench: TensorBench, N: number, C: number) => ({
  derivative: bench.tensor('derivative', [N, C], undefined, 'int8'),
  ...{ values: bench.tensor('values', [N, C], undefined, 'fp8'), scale: bench.floats('scale', [N]) },
  ...emptyCopy(bench, N, C),
});

const { GPT2_NO_ACTIVATION, GPT2_GELU, GPT2_RELU_SQUARED } = GPT2_ACTIVATION;
type Forward = Parameters<typeof fp8MatmulForward>[1];
type Backward = Parameters<typeof fp8MatmulBackwardInput>[1];

/** The arguments of a forward matmul without an activation that are null. */
export const plainForward = {
  ...{ values: null, scale: null, columnwise: null, columnwiseScale: null, derivative: null },
  ...{ inNorm: null, inColumnwiseNorm: null, activation: GPT2_NO_ACTIVATION },
};

/** Each activation with its matmuls, which ignore the tensors that only the other's take. */
export const activated = [
  { name: 'GELU', activation: GPT2_GELU, ...activations.gelu },
  { name: 'the squared ReLU', activation: GPT2_RELU_SQUARED, ...activations.reluSquared },
].map(({ activation, ...formulas }) => ({
  ...formulas,
  forward(device: Device, { derivative, ...args }: Omit<Forward, 'out' | 'residual' | 'activation'>) {
    const ofActivation = { derivative: activation === GPT2_GELU ? derivative : null, activation };
    fp8MatmulForward(device, { out: null, ...args, residual: null, ...ofActivation });
  },
  backward(device: Device, { derivative, activated, ...args }: Omit<Backward, 'din' | 'activation'>) {
    const none = { activated: null, activatedScale: null, activatedColumnwiseScale: null };
    const ofActivation = activation === GPT2_GELU ? { derivative, ...none } : { derivative: null, activated };
    fp8MatmulBackwardInput(device, { din: null, ...args, ...ofActivation, activation });
  },
}));

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
  { scale, columnwiseScale }: Pick<ReturnType<typeof emptyResult>, 'scale' | 'columnwiseScale'>,
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
