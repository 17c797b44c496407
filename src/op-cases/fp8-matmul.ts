// Cases of the products of FP8, forward and backward to the input.
import { contracts } from '../ops/ops.generated.ts';
import { drawScales, e4m3Bound, e4m3Deviation, exact, largestRowSum, powerOfTwoFrom, scaled } from './fp8.ts';
import { gelu, geluDerivative } from './gelu.ts';
import { linear, productBound, squared, throughGelu } from './matmul.ts';
import { largestOf, type Numbers, type Random } from './numbers.ts';
import { type Bound, casesOf } from './op-case.ts';

type Sizes = Readonly<Record<'N' | 'C' | 'O', number>>;

// Aligned and not, one row and many, one tile and several, and a k of 2,048 and more in either direction, for which a GPU may have
// kernels of their own.
const sizes = [
  { N: 128, C: 128, O: 384 },
  { N: 1, C: 64, O: 80 },
  { N: 7, C: 48, O: 16 },
  { N: 65, C: 80, O: 208 },
  { N: 257, C: 208, O: 144 },
  { N: 33, C: 2048, O: 48 },
  { N: 33, C: 48, O: 2064 },
];
const gpuSizes = [
  { N: 1001, C: 768, O: 400 },
  { N: 4097, C: 144, O: 208 },
  { N: 131, C: 1600, O: 784 },
  { N: 131, C: 784, O: 1600 },
];
const flops = ({ N, C, O }: Sizes): number => 2 * N * C * O;
const bound = ({ N, C, O }: Sizes): Bound => productBound(Math.max(N, C, O));

// Weights of a standard deviation of 0.2.
const weightScale = 2 ** -9;

/** In fp32, as the ops compute it: a power of two and its double may be a rounding apart. */
const fp32 = Math.fround;

const forwardScale = () => ({ in: e4m3Deviation, weight: e4m3Deviation });
const forwardInputs = (
  { weight, bias }: Record<'weight' | 'bias', Numbers>,
  { N, C }: Readonly<Record<string, number>>,
  random: Random,
) => ({
  inScale: drawScales(N!, random),
  factors: Float32Array.of(weightScale, largestRowSum(weight, C!) * weightScale, 0, largestOf(bias)),
});

type ForwardInputs = Record<'in' | 'inScale' | 'weight' | 'factors' | 'bias', Numbers>;
const forward = ({ in: x, inScale, weight, factors, bias }: ForwardInputs, own: Sizes): Float64Array =>
  linear(scaled(x, inScale), scaled(weight, factors[0]!), bias, own);

const backwardScale = () => ({ dout: e4m3Deviation, transposed: e4m3Deviation });
const backwardInputs = (
  { transposed }: Record<'transposed', Numbers>,
  { N, O }: Readonly<Record<string, number>>,
  random: Random,
) => ({
  doutScale: drawScales(N!, random),
  factors: Float32Array.of(weightScale, 0, largestRowSum(transposed, O!) * weightScale, 0),
});

type BackwardInputs = Record<'dout' | 'doutScale' | 'transposed' | 'factors', Numbers>;
const backward = ({ dout, doutScale, transposed, factors }: BackwardInputs, { N, C, O }: Sizes): Float64Array =>
  linear(scaled(dout, doutScale), scaled(transposed, factors[0]!), undefined, { N, C: O, O: C });

export const fp8MatmulCases = [
  casesOf(contracts.fp8Matmul, {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula: ({ residual, ...inputs }, own: Sizes) => ({
      out: forward(inputs, own).map((value, index) => value + (residual?.[index] ?? 0)),
    }),
    bounds: (own: Sizes) => ({ out: bound(own) }),
  }),
  casesOf(contracts.fp8MatmulGeluForward, {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula(inputs, own: Sizes) {
      const pre = forward(inputs, own);
      const out = pre.map(gelu);
      const { inScale, factors } = inputs;
      const bias = fp32(factors[3]! / 448);
      const scale = Float64Array.from(inScale, (own) => powerOfTwoFrom(fp32(own * factors[1]! + bias)));
      return { pre, out, values: out, scale };
    },
    bounds: (own: Sizes) => ({ pre: bound(own), out: throughGelu(bound(own)), values: e4m3Bound, scale: exact }),
  }),
  casesOf(contracts.fp8MatmulReluSquaredForward, {
    ...{ sizes, gpuSizes, flops, scale: forwardScale, inputs: forwardInputs },
    formula: (inputs, own: Sizes) => ({ out: forward(inputs, own).map((value) => Math.max(value, 0) ** 2) }),
    bounds: (own: Sizes) => ({ out: squared(bound(own)) }),
  }),
  casesOf(contracts.fp8MatmulGeluBackwardInput, {
    ...{ sizes, gpuSizes, flops, scale: backwardScale, inputs: backwardInputs },
    formula({ pre, ...inputs }, own: Sizes) {
      const din = backward(inputs, own).map((value, index) => value * geluDerivative(pre[index]!));
      const columnSum = fp32(fp32(1.13) * inputs.factors[2]!);
      const scale = Float64Array.from(inputs.doutScale, (own) => powerOfTwoFrom(own * columnSum));
      return { din, values: din, scale };
    },
    bounds: (own: Sizes) => ({ din: throughGelu(bound(own)), values: e4m3Bound, scale: exact }),
  }),
  casesOf(contracts.fp8MatmulReluSquaredBackwardInput, {
    ...{ sizes, gpuSizes, flops, scale: backwardScale },
    inputs: (drawn, own, random) => ({
      ...backwardInputs(drawn, own, random),
      activated: drawn.activated.map((value) => Math.max(value, 0)),
    }),
    formula: ({ activated, ...inputs }, own: Sizes) => ({
      din: backward(inputs, own).map((value, index) => value * 2 * Math.sqrt(activated[index]!)),
    }),
    bounds: (own: Sizes) => ({ din: bound(own) }),
  }),
];
