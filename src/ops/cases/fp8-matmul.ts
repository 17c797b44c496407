import { blockRows, groupsOf } from '../../native/element-types.ts';
import { largestOf, type Numbers, norm, type Random } from './case-numbers.ts';
import {
  columnwise,
  drawScales,
  e4m3Bound,
  e4m3Deviation,
  exact,
  largestNorm,
  largestOfBlocks,
  perRow,
  rowwise,
  scaled,
  scaledColumnwise,
  scaleOf,
} from './fp8.ts';
import { gelu, geluDerivative } from './gelu.ts';
import { bound, columnSums, flops, linear, product, type Sizes } from './matmul.ts';
import { casesOf, sizesOf } from './op-case.ts';

// Aligned and unaligned sizes, one row and many, one tile and several, several blocks of 512 rows. In forward and in backward, one size
// has sums over 2,048 terms or more, for which a GPU may have separate kernels.
const sizes = sizesOf('N C O', '128x128x384 1x64x80 7x48x16 65x80x208 257x208x144 1030x64x80 33x2048x48 33x48x2064');
const gpuSizes = sizesOf('N C O', '1001x768x400 4097x144x208 131x1600x784 131x784x1600');

// With E4M3 values of a standard deviation of 100, this scale gives weights a standard deviation of 0.2.
const weightScale = 2 ** -9;

/** Rounds to fp32, as the ops do. In double, a bound near a power of two could lead to another scale. */
const fp32 = Math.fround;

/** Random scales of rows. In each block of 512 rows, scales are on average half as large as in the previous block. */
const drawRowScales = (N: number, random: Random): Float32Array =>
  drawScales(N, random).map((scale, n) => scale / 2 ** Math.floor(n / blockRows));

const forwardScale = () => ({ in: e4m3Deviation, weight: e4m3Deviation });
const forwardInputs = (
  { in: x, weight, bias }: Record<'in' | 'weight' | 'bias', Numbers>,
  { N, C }: Readonly<Record<string, number>>,
  random: Random,
) => {
  const inScale = drawRowScales(N!, random);
  const inNorm = perRow(scaled(x, inScale), C!, norm);
  const factors = Float32Array.of(weightScale, largestNorm(weight, C!) * weightScale, 0, largestOf(bias));
  return { inScale, inNorm, inColumnwiseNorm: largestOfBlocks(inNorm), factors };
};

type ForwardInputs = Record<'in' | 'inScale' | 'weight' | 'factors' | 'bias', Numbers>;
const forward = ({ in: x, inScale, weight, factors, bias }: ForwardInputs, size: Sizes): Float64Array =>
  linear(scaled(x, inScale), scaled(weight, factors[0]!), bias, size);

const backwardScale = () => ({ dout: e4m3Deviation, transposed: e4m3Deviation });
const backwardInputs = (
  { dout, transposed }: Record<'dout' | 'transposed', Numbers>,
  { N, O }: Readonly<Record<string, number>>,
  random: Random,
) => {
  const doutScale = drawRowScales(N!, random);
  const doutNorm = perRow(scaled(dout, doutScale), O!, norm);
  const factors = Float32Array.of(weightScale, 0, largestNorm(transposed, O!) * weightScale, 0);
  return { doutScale, doutNorm, doutColumnwiseNorm: largestOfBlocks(doutNorm), factors };
};

type BackwardInputs = Record<'dout' | 'doutScale' | 'transposed' | 'factors', Numbers>;
const backward = ({ dout, doutScale, transposed, factors }: BackwardInputs, { N, C, O }: Sizes): Float64Array =>
  linear(scaled(dout, doutScale), scaled(transposed, factors[0]!), undefined, { N, C: O, O: C });

/** A result [N,C] as FP8 copies. `boundOf(norm, activatedScale)` is an upper bound of the elements of a row or block of rows. */
function stored(
  result: Float64Array,
  norms: Numbers,
  boundOf: (norm: number, activatedScale: number) => number,
  { N, C }: Readonly<Record<'N' | 'C', number>>,
  activatedScales: Numbers = new Float32Array(N),
) {
  const scales = (norms: Numbers, activated: Numbers) =>
    Float64Array.from(norms, (norm, index) => scaleOf(boundOf(norm, activated[index]!)));
  return {
    values: result,
    scale: scales(norms, activatedScales),
    columnwise: columnwise(result, N, C),
    columnwiseScale: scales(largestOfBlocks(norms), largestOfBlocks(activatedScales)),
  };
}

interface Activation {
  readonly of: (x: number) => number;
  readonly derivative: (x: number) => number;
  /** An upper bound of the activation's output for inputs of absolute value at most x. */
  readonly boundOf: (x: number) => number;
  /** An upper bound of the derivative in a row, from the scale with which forward stored the row's activation in FP8. */
  readonly derivativeBound: (activatedScale: number) => number;
}

export const activations = {
  gelu: { of: gelu, derivative: geluDerivative, boundOf: (x) => x, derivativeBound: () => fp32(1.13) },
  reluSquared: {
    of: (x) => Math.max(x, 0) ** 2,
    derivative: (x) => 2 * Math.max(x, 0),
    boundOf: (x) => fp32(x * x),
    derivativeBound: (activatedScale) => 2 * fp32(Math.sqrt(448 * activatedScale)),
  },
} as const satisfies Readonly<Record<string, Activation>>;

function activatedForward(
  pre: Float64Array,
  { inNorm, factors }: Record<'inNorm' | 'factors', Numbers>,
  { N, O }: Sizes,
  activation: Activation,
) {
  const bound = (norm: number) => activation.boundOf(fp32(norm * factors[1]! + factors[3]!));
  return stored(pre.map(activation.of), inNorm, bound, { N, C: O });
}

function activatedBackward(
  { derivative, ...inputs }: BackwardInputs & Record<'doutNorm' | 'derivative', Numbers>,
  size: Sizes,
  { derivativeBound }: Activation,
  activatedScales?: Numbers,
) {
  const din = backward(inputs, size).map((value, index) => value * derivative[index]!);
  const bound = (norm: number, activatedScale: number) =>
    fp32(norm * fp32(derivativeBound(activatedScale) * inputs.factors[2]!));
  return stored(din, inputs.doutNorm, bound, size, activatedScales);
}

const storedBounds = { values: e4m3Bound, scale: exact, columnwise: e4m3Bound, columnwiseScale: exact };

// Numbers of rows: below 16, multiples of neither 16 nor 512, and several blocks of 512.
const weightSizes = sizesOf('N C O', '1024x128x384 1x16x16 7x48x16 65x80x208 530x208x80 1102x208x144 33x2064x48');
const weightGpuSizes = sizesOf('N C O', '5000x784x400 4097x144x208 65523x80x64 131x1600x784');

/** The values of a columnwise FP8 copy, with zeros where rows from N on would be. */
const padded = (values: Numbers, N: number, C: number): Float32Array =>
  Float32Array.from(columnwise(rowwise(values, N, C), N, C));

export const fp8MatmulCases = [
  casesOf('fp8_matmul_forward', {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula: ({ residual, ...inputs }, size: Sizes) => ({
      out: forward(inputs, size).map((value, index) => value + (residual?.[index] ?? 0)),
    }),
    bounds: (size: Sizes) => ({ out: bound(size) }),
  }),
  casesOf('fp8_matmul_forward.gelu', {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula(inputs, size: Sizes) {
      const pre = forward(inputs, size);
      return { derivative: pre.map(geluDerivative), ...activatedForward(pre, inputs, size, activations.gelu) };
    },
    // Derivatives in one byte have errors up to 0.0025, and are mostly near 0 or 1. On GPUs, long sums have fewer bits of mantissa.
    bounds: () => ({ derivative: { fp32: 2.5e-3, bf16: 6e-3 }, ...storedBounds }),
  }),
  casesOf('fp8_matmul_forward.relu_squared', {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula: (inputs, size: Sizes) => activatedForward(forward(inputs, size), inputs, size, activations.reluSquared),
    bounds: () => storedBounds,
  }),
  casesOf('fp8_matmul_backward_input', {
    ...{ sizes, gpuSizes, flops, scale: backwardScale, inputs: backwardInputs },
    formula: (inputs, size: Sizes) => ({ din: backward(inputs, size) }),
    bounds: (size: Sizes) => ({ din: bound(size) }),
  }),
  casesOf('fp8_matmul_backward_input.gelu', {
    ...{ sizes, gpuSizes, flops, scale: backwardScale, inputs: backwardInputs },
    formula: (inputs, size: Sizes) => activatedBackward(inputs, size, activations.gelu),
    bounds: () => storedBounds,
  }),
  casesOf('fp8_matmul_backward_input.relu_squared', {
    ...{ sizes, gpuSizes, flops, scale: () => ({ ...backwardScale(), activated: e4m3Deviation }) },
    inputs(drawn, size, random) {
      const activated = drawn.activated.map((value) => Math.max(value, 0));
      const activatedScale = drawRowScales(size.N!, random);
      return {
        ...{ ...backwardInputs(drawn, size, random), activated, activatedScale },
        activatedColumnwiseScale: largestOfBlocks(activatedScale),
      };
    },
    formula({ activated, activatedScale, ...inputs }, size: Sizes) {
      const derivative = scaled(activated, activatedScale).map((value) => 2 * Math.sqrt(value));
      return activatedBackward({ ...inputs, derivative }, size, activations.reluSquared, activatedScale);
    },
    bounds: () => storedBounds,
  }),
  casesOf('fp8_matmul_backward_weight', {
    ...{ sizes: weightSizes, gpuSizes: weightGpuSizes, flops },
    scale: () => ({ dout: e4m3Deviation, in: e4m3Deviation }),
    inputs({ dout, in: x, doutScale, inScale }, { N, C, O }, random) {
      const scales = (drawn: Numbers) => drawScales(drawn.length, random);
      return {
        ...{ dout: padded(dout, N!, O!), doutScale: scales(doutScale) },
        ...{ in: padded(x, N!, C!), inScale: scales(inScale) },
      };
    },
    formula({ dout, doutScale, in: x, inScale }, { N, C, O }: Sizes) {
      const groups = groupsOf(N);
      const rows = rowwise(scaledColumnwise(dout, doutScale, groups), N, O);
      const inRows = rowwise(scaledColumnwise(x, inScale, groups), N, C);
      return { dweight: product(rows, inRows, { N: O, K: N, O: C }, 'tn'), dbias: columnSums(rows, O) };
    },
    bounds: (size: Sizes) => ({ dweight: bound(size), dbias: { fp32: 1e-5, bf16: 1e-3 } }),
  }),
];
