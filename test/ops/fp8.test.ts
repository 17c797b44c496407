// FP8's numbers: exact bytes, order and scales, where they follow from what an op stores; rounding once; bounds; sums in double.
import { describe, expect, it } from 'vitest';
import { fromBf16, fromE4m3, toE4m3 } from '../../src/base/files/half-floats.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { Device } from '../../src/native/device.ts';
import { blocksOf, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import {
  distance,
  floats,
  held,
  largestDifference,
  largestOf,
  type Numbers,
  norm,
  Random,
  transposed,
  worstError,
} from '../../src/ops/cases/case-numbers.ts';
import {
  columnwise,
  drawScales,
  largestNorm,
  largestOfBlocks,
  normBound,
  perRow,
  rowwise,
  scaled,
  scaledColumnwise,
  scaleOf,
} from '../../src/ops/cases/fp8.ts';
import { columnSums, linear, product } from '../../src/ops/cases/matmul.ts';
import { describeBackends } from '../support/backends.ts';
import {
  activated,
  bytesOf,
  differences,
  drawPre,
  expectBackwardScales,
  forwardTensors,
  type Stored,
} from '../support/fp8.ts';
import { cosineOf, expectClose, hashOf, relativeError, TensorBench } from '../support/tensors.ts';

/** Rows were stored in FP8 by their largest elements, with a bound of their norms; rows of NaN by any scale and bound. */
function expectQuantized(
  rows: Tensor,
  { values, scale, norm: bound }: Readonly<Record<'values' | 'scale' | 'norm', Tensor>>,
): void {
  const [numbers, scales, norms, width] = [floats(rows), floats(scale), floats(bound), rows.shape.at(-1)!];
  const ofRows = perRow(scaled(floats(values), scales), width, norm);
  const wrong = Array.from(scales, (_, n) => n).filter((n) => {
    const row = numbers.subarray(n * width, (n + 1) * width);
    if (row.some(Number.isNaN)) return false;
    const wanted = normBound(row);
    // A row of zeros has a subnormal bound.
    const isBound = norms[n]! >= ofRows[n]! && Math.abs(norms[n]! - wanted) <= 1e-5 * wanted + 2 ** -148;
    return scales[n] !== scaleOf(largestOf(row, 0)) || !isBound;
  });
  expect(wrong, `rows of ${rows.name} with another scale or bound`).toEqual([]);
  const wanted = toE4m3(numbers.map((value, index) => value / scales[Math.floor(index / width)]!));
  expect(differences(bytesOf(values), wanted), `bytes of ${rows.name}`).toEqual([]);
}

describeBackends(
  'FP8',
  (device, kind) => {
    const isCpu = kind === 'cpu';

    /** Quantises a weight, and checks everything that follows from it. */
    function quantizeWeight(weight: Numbers, [O, C]: [number, number], bias: Numbers): Float32Array {
      using bench = new TensorBench(device());
      const { values, transposed: turned, factors } = bench.call('fp8_quantize_weight', { C, O }, { weight, bias });
      const [scale, ...others] = floats(factors);
      const wanted = toE4m3(held(device().elementType, weight).map((value) => value / scale!));
      expect(differences(bytesOf(values), wanted), 'values').toEqual([]);
      const columns = Uint8Array.from(transposed(Int32Array.from(wanted), O, C));
      expect(differences(bytesOf(turned), columns), 'transposed').toEqual([]);
      const exact = [
        largestNorm(scaled(floats(values), scale!), C),
        largestNorm(scaled(floats(turned), scale!), O),
        largestOf(held(device().elementType, bias)),
      ];
      if (!weight.some(Number.isNaN)) expect(relativeError(others, exact)).toBeLessThan(1e-6);
      return floats(factors);
    }

    it('rounds every bf16 number that fits as E4M3 does, and keeps NaN', () => {
      const positive = fromBf16(Uint16Array.from({ length: 0x43e1 }, (_, bits) => bits));
      const [O, C] = [272, 128];
      const weight = new Float32Array(O * C);
      weight.set(positive);
      weight.set(positive.map((value) => -value).reverse(), O * C - positive.length);
      expect(quantizeWeight(weight, [O, C], new Float32Array(O))[0]).toBe(1);
      weight[77] = Number.NaN;
      quantizeWeight(weight, [O, C], new Float32Array(O));
    });

    it('takes the smallest scale for the largest element', () => {
      const [O, C] = [48, 80];
      const random = new Random(1);
      // In bf16, 446, 448 and 450 are neighbours, and 2^-133 is the smallest number.
      const sizes = [-126, -60, -8, 0, 1, 100].flatMap((power) => [446, 448, 450].map((size) => size * 2 ** power));
      for (const largest of [...sizes, 1, 2 ** -126, 2 ** -133, 0]) {
        const weight = random.normals(O * C).map((value) => (value / 6) * largest);
        weight[1234] = -largest;
        expect(quantizeWeight(weight, [O, C], random.normals(O))[0], `for ${largest}`).toBe(scaleOf(largest));
      }
    });

    describe.each([48, 768, 1600, 5008])('norms of %i', (C) => {
      const N = 37;
      /** Rows from small to large, one of zeros, one with NaN. */
      function rowsOf(random: Random): Float32Array {
        const rows = random.normals(N * C).map((value, index) => value * 4 ** (Math.floor(index / C) - 20));
        rows.fill(0, 5 * C, 6 * C);
        rows[9 * C + 3] = Number.NaN;
        return rows;
      }

      it.each(['layernorm', 'rmsnorm'] as const)('%s', (name) => {
        using bench = new TensorBench(device());
        const random = new Random(C);
        const rows = { in: rowsOf(random), weight: random.normals(C) };
        const statistics = { mean: new Float32Array(N), rstd: new Float32Array(N).fill(1) };
        const gradients = { ...rows, ...statistics, dresidual: rowsOf(random), dout: rowsOf(random) };
        const backward = bench.call(`norm_backward.${name}_fp8`, { N, C, accumulate: 0 }, gradients);
        expectQuantized(backward.din, backward);
        const run = (more: { out?: null }) => {
          const given = { ...rows, bias: new Float32Array(C), ...more };
          return bench.call(`norm_forward.${name}_fp8`, { N, C, eps: 1e-5 }, given);
        };
        const hash = ({ values, scale, norm, mean, rstd }: ReturnType<typeof run>) =>
          hashOf([values, scale, norm, ...(name === 'layernorm' ? [mean] : []), rstd]);
        const forward = run({});
        expectQuantized(forward.out, forward);
        expect(floats(forward.scale)[5]).toBe(2 ** -126);
        expect(hash(run({ out: null }))).toBe(hash(forward));
      });
    });

    const filled = (value: number, count = 16) => new Float32Array(count).fill(value);
    /** Products of 16 x 16 numbers, with a weight of ones and rows of twos. */
    const small = { N: 16, C: 16, O: 16 };
    const [ones, twos, factors] = [filled(1, 256), filled(2, 256), [1, 4, 4, 0]];

    it('gives NaN of either sign and infinity one scale', () => {
      using bench = new TensorBench(device());
      const bits = Uint32Array.from(filled(0), (_, n) => [0x7fc00000, 0xffc00000, 0x7fffffff, 0x7f800000][n % 4]!);
      const inNorm = bench.floats('inNorm', [16]);
      inNorm.write(new Float32Array(bits.buffer));
      const rows = { in: twos, inScale: filled(1), inNorm };
      const given = { ...rows, weight: ones, factors, bias: null, columnwise: null };
      const { scale } = bench.call('fp8_matmul_forward.gelu', small, given);
      expect(floats(scale)).toEqual(filled(2 ** 120));
    });

    it('takes the derivative of a squared ReLU whose result times its scale exceeds fp32', () => {
      using bench = new TensorBench(device());
      const bound = 8 * 2 ** -90;
      const { scale, values } = bench.call('fp8_matmul_backward_input.relu_squared', small, {
        ...{ dout: twos, doutScale: filled(2 ** -90), doutNorm: filled(bound), doutColumnwiseNorm: [bound] },
        ...{ transposed: ones, factors, activated: filled(256, 256) },
        ...{ activatedScale: filled(2 ** 120), activatedColumnwiseScale: [2 ** 120] },
      });
      const scales = filled(scaleOf(bound * 4 * 2 * Math.sqrt(448 * 2 ** 120)));
      expect(floats(scale)).toEqual(scales);
      const wanted = filled(16 * 2 * 2 ** -90 * 2 ** 65, 256);
      expect(Float32Array.from(scaled(floats(values), scales))).toEqual(wanted);
    });

    // Each row of the input is also one of the weight, and all have the same norm but for scales: an element of each row of the
    // product is as large as Cauchy and Schwarz allow.
    it.each(activated)('bounds what $name stores, closely, and saturates nothing', ({ variant, of, derivative }) => {
      using bench = new TensorBench(device());
      const [N, K] = [48, 208];
      const random = new Random(11);
      const row = held('fp8', random.normals(K, 100));
      const x = Float32Array.from({ length: N * K }, (_, index) => row[index % K]! * (random.uniform() < 0.5 ? -1 : 1));
      const inScales = drawScales(N, random);
      const norms = perRow(scaled(x, inScales), K, norm);
      const bias = filled(3, N);

      const expectBounded = (stored: Stored, result: Float64Array) => {
        const largest = perRow(result, N, largestOf);
        const check = (sizes: Float32Array, scales: Float32Array) => {
          const parts = sizes.map((size, index) => size / (448 * scales[index]!));
          // Scales are powers of two. Backward through the squared ReLU bounds 1.5 by 1.87, from the scale of its square.
          expect(Math.min(...parts)).toBeGreaterThan(0.4);
          // Norms are rounded to fp32.
          expect(Math.max(...parts)).toBeLessThan(1 + 1e-5);
        };
        check(largest, floats(stored.scale));
        check(largestOfBlocks(largest), floats(stored.columnwiseScale));
        const expectNear = (actual: Numbers) => expect(worstError(actual, result)).toBeLessThan(0.07);
        expectNear(scaled(floats(stored.values), floats(stored.scale)));
        const copy = scaledColumnwise(floats(stored.columnwise), floats(stored.columnwiseScale), groupsOf(N));
        expectNear(rowwise(copy, N, N));
      };

      const quantized = { transposed: null, weight: scaled(x, 2 ** -9), bias };
      const { values: weight, factors } = bench.call('fp8_quantize_weight', { C: K, O: N }, quantized);
      const rows = { in: x, inScale: inScales, inNorm: norms, inColumnwiseNorm: largestOfBlocks(norms) };
      const sizes = { N, C: K, O: N };
      const forward = bench.call(`fp8_matmul_forward.${variant}`, sizes, { ...rows, weight, factors, bias });
      const exact = linear(scaled(x, inScales), scaled(x, 2 ** -9), undefined, sizes);
      expectBounded(
        forward,
        exact.map((value) => of(value + 3)),
      );

      // GELU's derivative is largest near 1.5, and that of the squared ReLU at its largest input.
      const turned = { values: null, weight: scaled(transposed(x, N, K), 2 ** -9), bias: null };
      const quantizedBack = bench.call('fp8_quantize_weight', { C: N, O: K }, turned);
      const backward = bench.call(
        `fp8_matmul_backward_input.${variant}`,
        { N, C: N, O: K },
        {
          ...{ dout: x, doutScale: inScales, doutNorm: norms, doutColumnwiseNorm: rows.inColumnwiseNorm },
          ...{ transposed: quantizedBack.transposed, factors: quantizedBack.factors },
          ...forwardTensors(bench, filled(1.5, N * N), N),
        },
      );
      expectBounded(
        backward,
        exact.map((value) => value * derivative(1.5)),
      );
    });

    function transpose(values: Numbers, scale: Numbers, C: number) {
      using bench = new TensorBench(device());
      const norms = perRow(scaled(values, scale), C, norm);
      const given = { values, scale, norm: norms };
      const { columnwise, ...copy } = bench.call('fp8_transpose', { N: scale.length, C }, given);
      const [scales, columnwiseNorm] = [floats(copy.columnwiseScale), floats(copy.columnwiseNorm)];
      return { bytes: bytesOf(columnwise), scales, norms, columnwiseNorm };
    }

    describe('transpose', () => {
      it('takes the largest scale and norm of each block, small and large', () => {
        const [N, C] = [1100, 16];
        const powers = new Random(3).integers(N, 30);
        const scale = Float32Array.from(powers, (power, n) => 2 ** (power + [-126, 97, -15][n >> 9]!));
        scale[700] = 2 ** -126;
        const values = held('fp8', new Random(4).normals(N * C, 100));
        const { bytes, scales, norms, columnwiseNorm } = transpose(values, scale, C);
        expect(scales).toEqual(largestOfBlocks(scale));
        expect(columnwiseNorm).toEqual(largestOfBlocks(norms));
        const factors = scale.map((own, n) => own / scales[n >> 9]!);
        expect(differences(bytes, toE4m3(columnwise(scaled(values, factors), N, C)))).toEqual([]);
      });

      it('rounds every number to nearest even for a larger scale, and keeps NaN', () => {
        const [N, C] = [21, 256];
        const all = Uint8Array.from({ length: N * C }, (_, index) => index % C);
        const scale = Float32Array.from({ length: N }, (_, n) => 2 ** -n);
        const { bytes, scales } = transpose(fromE4m3(all), scale, C);
        expect(scales).toEqual(Float32Array.of(1));
        expect(differences(bytes, toE4m3(columnwise(scaled(fromE4m3(all), scale), N, C)))).toEqual([]);
        // Halves of 1, 3, 5 and 7 units of the smallest number, and of the smallest normal numbers.
        const halves = [1, 3, 5, 7, 8, 9, 11].map((byte) => bytes[byte * groupsOf(N) * 16 + 2]);
        expect(halves).toEqual([0, 2, 2, 4, 4, 4, 6]);
      });
    });

    interface Sizes {
      readonly N: number;
      readonly C: number;
      readonly O: number;
      /** Rows of the weight repeat, in a period that no tile has, so that the formula is quick. Default: they do not. */
      readonly period?: number;
    }

    /** Operands of a matmul, whose weight may be a transposed one. With a period, numbers of `in` repeat too, and there is a bias. */
    function operands(bench: TensorBench, { N, C, O, period = O }: Sizes) {
      const repeats = period < O;
      const random = new Random(repeats ? C : N + O);
      const repeated = (count: number, values: Numbers) =>
        new Float32Array(count).map((_, index) => values[index % values.length]!);
      const x = repeated(N * C, held('fp8', random.normals(Math.min(N * C, 100_003), 100)));
      const drawn = repeats ? drawScales(N, random) : undefined;
      const base = held('fp8', random.normals(period * C, 100));
      // Scales of a block that are smaller than those of the block before.
      const scales = drawn ?? drawScales(N, random).map((scale, n) => scale / 4 ** (n >> 9));
      const before = drawPre(N, O, repeats ? random : new Random(5));
      const biases = held(device().elementType, repeats ? random.normals(O) : new Float32Array(O));
      const rowNorm = Math.fround(largestNorm(base, C) * 2 ** -9);
      const norms = perRow(scaled(x, scales), C, norm);
      const narrow = product(scaled(x, scales), scaled(base, 2 ** -9), { N, K: C, O: period }, 'nt');
      const plain = new Float64Array(N * O).map((_, i) => narrow[Math.floor(i / O) * period + ((i % O) % period)]!);
      const [input, inScale] = [bench.tensor('in', [N, C], x, 'fp8'), bench.floats('inScale', [N], scales)];
      const inNorm = bench.floats('inNorm', [N], norms);
      const inColumnwiseNorm = bench.floats('inColumnwiseNorm', [blocksOf(N)], largestOfBlocks(norms));
      const weight = bench.tensor('weight', [O, C], repeated(O * C, base), 'fp8');
      const factors = bench.floats('factors', [4], [2 ** -9, rowNorm, rowNorm, largestOf(biases, 0)]);
      const bias = repeats ? bench.tensor('bias', [O], biases) : null;
      return {
        ...{ plain, linear: plain.map((value, i) => value + biases[i % O]!) },
        bounds: norms.map((each) => Math.fround(each * rowNorm + largestOf(biases, 0))),
        ...{ norms, rowNorm, before },
        forward: { in: input, inScale, inNorm, inColumnwiseNorm, weight, factors, bias },
        backward: {
          ...{ dout: input, doutScale: inScale, doutNorm: inNorm, doutColumnwiseNorm: inColumnwiseNorm },
          ...{ transposed: weight, factors },
        },
      };
    }

    /**
     * `actual`, values times scales, is `result` rounded to E4M3: to within half a unit, and the error of the sums. On CPUs few
     * results are so close to the middle between two numbers that they are rounded to the other.
     */
    function expectRounded(name: string, values: Tensor, actual: Numbers, result: Numbers, scales: Numbers): void {
      const slack = ((isCpu ? 1e-5 : 5e-3) * norm(result)) / Math.sqrt(result.length);
      const wrong = Array.from(result, (_, index) => index).filter((index) => {
        const half = Math.max(Math.abs(result[index]!) / 16, scales[index]! * 2 ** -10);
        return !(Math.abs(actual[index]! - result[index]!) <= half + slack);
      });
      expect(wrong, name).toEqual([]);
      if (!isCpu) return;
      const bytes = toE4m3(result.map((value, index) => value / scales[index]!));
      expect(differences(bytesOf(values), bytes).length, `${name}: other bytes`).toBeLessThan(bytes.length / 1000);
    }

    /** Rows past N are zeros. */
    function expectPadded(copy: Tensor, N: number, O: number): void {
      const padding = bytesOf(copy).filter((_, i) => {
        return Math.floor(i / 16) % groupsOf(N) === groupsOf(N) - 1 && (i & 1) * 8 + ((i >> 1) & 7) >= (N % 16 || 16);
      });
      expect(padding).toEqual(new Uint8Array(O * (groupsOf(N) * 16 - N)));
    }

    /** Both copies are `result`, rounded once; of many numbers only the errors are compared. */
    function expectStored(name: string, stored: Stored, result: Float64Array): void {
      const [N, O] = stored.values.shape as [number, number];
      const ones = (length: number) => new Float32Array(length).fill(1);
      const [rows, turned] = [scaled(floats(stored.values), floats(stored.scale)), columnwise(result, N, O)];
      const scales = floats(stored.columnwiseScale);
      const copy = scaledColumnwise(floats(stored.columnwise), scales, groupsOf(N));
      if (result.length > 2 ** 20) {
        expectClose(`${name} rowwise`, rows, result, 2.7e-2, 0.135);
        // Squares of rows with a smaller scale than their block's are partly subnormal: up to 2.71e-2.
        expectClose(`${name} columnwise`, copy, turned, 2.8e-2, 0.14);
      } else {
        const blocks = scaledColumnwise(ones(turned.length), scales, groupsOf(N));
        expectRounded(`${name} rowwise`, stored.values, rows, result, scaled(ones(N * O), floats(stored.scale)));
        expectRounded(`${name} columnwise`, stored.columnwise, copy, turned, blocks);
      }
      expectPadded(stored.columnwise, N, O);
    }

    // On a GPU also several tiles for each SM one after the other, of a short k and of a long one; on an H100 the long ones take
    // narrow tiles and wide ones.
    it.each<Sizes>([
      { N: 37, C: 64, O: 208 },
      { N: 549, C: 64, O: 208 },
      ...(isCpu ? [] : [768, 3072].map((C) => ({ N: 2304, C, O: 3072, period: 56 }))),
      ...(isCpu ? [] : [{ N: 2304, C: 3072, O: 2688, period: 56 }]),
    ])('matmuls of $N rows, k $C, $O columns', (sizes) => {
      using bench = new TensorBench(device());
      const { N, C, O } = sizes;
      const { plain, linear, bounds, norms, rowNorm, before, forward, backward } = operands(bench, sizes);
      // The rounded result subtracted, bf16 shows the error of the sums alone.
      const rounded = held(device().elementType, linear);
      const outOf = (residual: Float32Array | null) =>
        floats(bench.call('fp8_matmul_forward', { N, C, O }, { ...forward, residual }).out);
      const rest = linear.map((value, i) => value - rounded[i]!);
      const error = distance(outOf(Float32Array.from(rounded, (value) => -value)), rest) / norm(linear);
      console.log(`sums of ${C} products of FP8 have a relative error of ${error.toExponential(2)}`);
      expect(error).toBeLessThan(1e-3);
      expectClose('out', outOf(null), linear, 2e-3, 0.01);

      const ofForward = forwardTensors(bench, before, O);
      // Without the mask, the bias would fill the padding.
      const infinite = Float32Array.from({ length: O }, (_, index) => [-30, Number.POSITIVE_INFINITY, 2][index % 3]!);
      for (const { name, variant, of, derivative, boundOf, derivativeBound } of activated) {
        const run = (more: { columnwise?: null; bias?: Float32Array }) =>
          bench.call(`fp8_matmul_forward.${variant}`, { N, C, O }, { ...forward, ...more });
        const stored = run({});
        expect(floats(stored.scale)).toEqual(bounds.map((bound) => scaleOf(boundOf(bound))));
        expect(floats(stored.columnwiseScale)).toEqual(largestOfBlocks(floats(stored.scale)));
        expectStored(name, stored, linear.map(of));
        if (name === 'GELU') {
          const [given, wanted] = [floats(stored.derivative), linear.map(derivative)];
          // GPUs add products of a long k with fewer bits.
          if (isCpu) expect(largestDifference(given, wanted)).toBeLessThan(0.00251);
          else expect(relativeError(given, wanted)).toBeLessThan(4e-3);
        }
        const rowwiseOnly = run({ columnwise: null });
        expect(hashOf([rowwiseOnly.values, rowwiseOnly.scale])).toBe(hashOf([stored.values, stored.scale]));
        expectPadded(run({ bias: infinite }).columnwise, N, O);

        const given = { ...backward, ...ofForward };
        const through = bench.call(`fp8_matmul_backward_input.${variant}`, { N, C: O, O: C }, given);
        expectBackwardScales(through, norms, ofForward, (scale) => Math.fround(derivativeBound(scale) * rowNorm));
        const slopes = name === 'GELU' ? floats(ofForward.derivative) : before.map(derivative);
        expectStored(
          `din through ${name}`,
          through,
          plain.map((value, index) => value * slopes[index]!),
        );
      }
    });

    it('reaches the bound, and saturates past it, in both copies', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [37, 64, 208];
      const { forward: operandsOfForward } = operands(bench, { N, C, O });
      const { in: input, inScale, inNorm, inColumnwiseNorm: blockNorm, weight, factors } = operandsOfForward;
      const forward = { ...operandsOfForward, bias: new Float32Array(O) };
      const run = () => bench.call('fp8_matmul_forward.gelu', { N, C, O }, forward);
      // All elements are as large as the row's largest, and so are the weights': results are the bound itself.
      input.write(toE4m3(new Float32Array(N * C).fill(448)));
      const norms = floats(inScale).map((one) => one * 448 * Math.sqrt(C));
      inNorm.write(norms);
      blockNorm.write(largestOfBlocks(norms));
      weight.write(toE4m3(new Float32Array(O * C).fill(256)));
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 2, 0, 0));
      let stored = run();
      expect(floats(stored.values).every((value) => value === 448)).toBe(true);
      expect(floats(stored.scale)).toEqual(floats(inScale).map((one) => (one * C) / 2));
      const rows = () => {
        const scales = floats(stored.columnwiseScale);
        return rowwise(scaledColumnwise(floats(stored.columnwise), scales, groupsOf(N)), N, O);
      };
      expect(rows()).toEqual(scaled(floats(stored.values), floats(stored.scale)));
      // A smaller bound than the results have, and an infinite one.
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 64, 0, 0));
      stored = run();
      expect(floats(stored.values).every((value) => value === 448)).toBe(true);
      const largest = 448 * floats(stored.columnwiseScale)[0]!;
      expect(Math.max(...rows())).toBe(largest);
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 2, 0, Number.POSITIVE_INFINITY));
      forward.bias[5] = Number.POSITIVE_INFINITY;
      forward.bias[6] = Number.NaN;
      stored = run();
      for (const copy of [floats(stored.values), rowwise(floats(stored.columnwise), N, O)]) {
        expect([...new Set(copy.filter((_, index) => index % O === 5))]).toEqual([448]);
        expect([...new Set(copy.filter((_, index) => index % O === 6))]).toEqual([Number.NaN]);
        expect([...new Set(copy.filter((_, index) => index % O === 7))]).toEqual([0]);
      }
      const slopes = floats(stored.derivative).slice(4, 8);
      expect(slopes).toEqual(Float32Array.of(1, Number.NaN, Number.NaN, 1));
      const expectInfinite = ({ scale, columnwiseScale }: Stored) =>
        expect([...floats(scale), ...floats(columnwiseScale)].every((one) => one === 2 ** 120)).toBe(true);
      expectInfinite(stored);
      // A finite bound whose square is not.
      factors.write(Float32Array.of(2 ** -9, 2 ** 70, 0, 0));
      forward.bias.fill(0);
      const squared = bench.call('fp8_matmul_forward.relu_squared', { N, C, O }, forward);
      expectInfinite(squared);
      expect(floats(squared.values).every((value) => value === 0)).toBe(true);
    });

    // 20.5 becomes 20 rowwise; in units of 8, the smallest of the columnwise copy, 20.5 is nearer to 3, and 20 would be rounded to 2.
    // ReLU's 4.5 squared is 20.25. Norms and factors are such that the scales are 1 and 4096.
    it.each([
      { ...activated[0]!, weights: [20, 0.5], rowNorm: 448, blockNorm: 4096, at: 100 },
      { ...activated[1]!, weights: [4, 0.5], rowNorm: 20, blockNorm: 64, at: 0.5 },
    ])('rounds each copy of $name once, and keeps NaN in its row', ({ variant, ...own }) => {
      using bench = new TensorBench(device());
      const [N, C] = [21, 16];
      const x = Float32Array.from({ length: N * C }, (_, index) => (index % C < 2 ? 1 : 0));
      x.fill(0, 17 * C, 18 * C);
      x[3 * C] = Number.NaN;
      const scale = new Float32Array(N).fill(1);
      scale[17] = 4096;
      const weightOf = (weights: readonly number[]) =>
        Float32Array.from({ length: C * C }, (_, i) => weights[i % C] ?? 0);
      const factors = [1, own.rowNorm, 300, 0];
      const expectOnce = (stored: Stored) => {
        const wanted = (value: number) =>
          Float32Array.from({ length: N * C }, (_, index) => {
            const row = Math.floor(index / C);
            return row === 3 ? Number.NaN : row === 17 ? 0 : value;
          });
        expect(floats(stored.values)).toEqual(wanted(20));
        expect(rowwise(floats(stored.columnwise), N, C)).toEqual(Float64Array.from(wanted(3 * 2 ** -9)));
        expect(floats(stored.columnwiseScale)).toEqual(Float32Array.of(4096));
      };
      const forward = bench.call(
        `fp8_matmul_forward.${variant}`,
        { N, C, O: C },
        {
          ...{ in: x, inScale: scale, inNorm: filled(1, N), inColumnwiseNorm: [own.blockNorm] },
          ...{ weight: weightOf(own.weights), factors, bias: null },
        },
      );
      expectOnce(forward);
      const through = (pre: number) =>
        bench.call(
          `fp8_matmul_backward_input.${variant}`,
          { N, C, O: C },
          {
            ...{ dout: x, doutScale: scale, doutNorm: filled(1, N), doutColumnwiseNorm: [4096] },
            ...{ transposed: weightOf([20, 0.5]), factors, ...forwardTensors(bench, filled(pre, N * C), C) },
          },
        );
      expectOnce(through(own.at));
      const stored = through(Number.NaN);
      expect([...floats(stored.values), ...rowwise(floats(stored.columnwise), N, C)].every(Number.isNaN)).toBe(true);
    });

    describe('gradients of weights', () => {
      it('is NaN where an operand is', () => {
        using bench = new TensorBench(device());
        const [N, C, O] = [1102, 48, 80];
        const random = new Random(6);
        const copyOf = (width: number, [row, column]: readonly [number, number]) => {
          const rows = random.normals(N * width, 100);
          rows[row * width + column] = Number.NaN;
          return columnwise(rows, N, width);
        };
        const scales = () => drawScales(blocksOf(N), random);
        const operands = {
          ...{ dout: copyOf(O, [0, 5]), doutScale: scales(), in: copyOf(C, [1100, 7]), inScale: scales() },
        };
        const sizes = { N, C, O, accumulate: 0 };
        const { dweight, dbias } = bench.call('fp8_matmul_backward_weight', sizes, operands);
        const isWanted = (value: number, index: number) =>
          Number.isNaN(value) === (Math.floor(index / C) === 5 || index % C === 7);
        expect(floats(dweight).every(isWanted)).toBe(true);
        expect([...floats(dbias).keys()].filter((o) => Number.isNaN(floats(dbias)[o]))).toEqual([5]);
      });

      // Tiles for each SM several times over; gradients in fp32 show the error of the sums alone.
      it.skipIf(isCpu)('of many tiles (CUDA only)', () => {
        using accumulating = Device.open({ kind, dtype: 'fp8', accumulates: true });
        using bench = new TensorBench(accumulating);
        const [N, C, O] = [2008, 784, 6160];
        const random = new Random(10);
        const base = held('fp8', random.normals(100_003, 100));
        const copyOf = (name: string, width: number) => {
          const rows = Float32Array.from({ length: N * width }, (_, index) => base[index % base.length]!);
          const scales = drawScales(blocksOf(N), random);
          const copy = bench.tensor(name, [width, groupsOf(N), 16], columnwise(rows, N, width), 'fp8');
          const perRow = Float32Array.from({ length: N }, (_, n) => scales[n >> 9]!);
          return { copy, scale: bench.floats('scale', [blocksOf(N)], scales), rows: scaled(rows, perRow) };
        };
        const [dout, input] = [copyOf('dout', O), copyOf('in', C)];
        const [dweight, dbias] = [bench.floats('dweight', [O, C]), bench.floats('dbias', [O])];
        // Every 61st row of the weight, which is in each of its tiles.
        const picked = Array.from({ length: Math.ceil(O / 61) }, (_, index) => index * 61);
        const of = (from: Numbers, rows: number, width: number, pick: (row: number, column: number) => number) =>
          Float64Array.from({ length: rows * width }, (_, i) => from[pick(Math.floor(i / width), i % width)]!);
        const douts = of(dout.rows, N, picked.length, (n, column) => n * O + picked[column]!);
        const wanted = product(douts, input.rows, { N: picked.length, K: N, O: C }, 'tn');
        const biases = columnSums(dout.rows, O);
        const operands = { dout: dout.copy, doutScale: dout.scale, in: input.copy, inScale: input.scale };
        for (const times of [1, 2]) {
          const sizes = { N, C, O, accumulate: times - 1 };
          bench.call('fp8_matmul_backward_weight', sizes, { dweight, dbias, ...operands });
          const all = floats(dweight);
          const actual = of(all, picked.length, C, (row, column) => picked[row]! * C + column);
          const error = relativeError(
            actual,
            wanted.map((value) => times * value),
          );
          console.log(`sums of ${N} products of FP8, ${times} times: a relative error of ${error.toExponential(2)}`);
          expect(error).toBeLessThan(1e-3);
          const biasError = relativeError(
            floats(dbias),
            biases.map((value) => times * value),
          );
          // Tensor cores sum these too.
          expect(biasError).toBeLessThan(1e-3);
        }
      });
    });

    describe('the classifier', () => {
      const [C, V, Vp, dloss] = [64, 2075, 2080, 0.5];
      const outputs = ['losses', 'din', 'dweight'] as const;
      type Inputs = Readonly<Record<'inValues' | 'inScale' | 'weightValues', Float32Array>> & { targets: Int32Array };

      /** Makes row n a multiple of row `output` of the weight: the output's logit is 38 to 76, others have a deviation of up to 10. */
      function favour({ inValues, inScale, weightValues }: Inputs, n: number, output: number): void {
        const row = weightValues.subarray(output * C, (output + 1) * C);
        inValues.set(row, n * C);
        inScale[n] = 2 ** Math.floor(Math.log2(76 / (norm(row) ** 2 * 2 ** -10)));
      }

      /** The op's results, the formula's, and the step block's count. Of the outputs, the estimate takes every fourth. */
      function classify(N: number, change: (inputs: Inputs) => void = () => {}, accumulate = false) {
        using bench = new TensorBench(device());
        const random = new Random(N);
        const drawn = (count: number) => held('fp8', random.normals(count, 100));
        const [inValues, weightValues] = [drawn(N * C), drawn(Vp * C)];
        const inputs = { inValues, weightValues, inScale: drawScales(N, random), targets: random.integers(N, V) };
        change(inputs);
        const { inScale, targets } = inputs;
        const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
        block[GPT2_STEP.GPT2_STEP_SATURATED] = 7;
        const factors = Float32Array.of(2 ** -10, 0, 0, 0);
        const given = {
          ...{
            in: held(device().elementType, scaled(inValues, inScale)),
            inValues,
            inScale: Float32Array.from(inScale),
          },
          ...{ weight: held(device().elementType, scaled(weightValues, factors[0]!)), weightValues },
          ...{ weightTransposed: transposed(weightValues, Vp, C), factors, targets, step: block },
        };
        const sizes = { N, C, V, Vp, dloss, softcap: 0 };
        const zeros = { dweight: new Float32Array(Vp * C), dbias: null, bias: null };
        const op = bench.call('classifier.fp8', { ...sizes, accumulate: Number(accumulate) }, { ...given, ...zeros });
        const wanted = () => casesNamed('classifier.fp8').formula(given, sizes);
        const results = Object.fromEntries(outputs.map((name) => [name, floats(op[name])]));
        return { ...{ results, wanted }, saturated: floats(op.step)[GPT2_STEP.GPT2_STEP_SATURATED]! };
      }
      type Results = ReturnType<typeof classify>['results'];
      const rowOf = (of: Numbers, n: number): Numbers => of.subarray(n * C, (n + 1) * C);

      // 8 is one of the outputs that the estimate takes, 9 is not.
      it('has the gradients of targets that are certain, or have a probability of about e^-70', () => {
        const { results, wanted, saturated } = classify(530, (inputs) => {
          for (const [n, output] of [100, 101, 102, 529].entries()) favour(inputs, n, output);
          inputs.targets.set([100, 101, 102, 529]);
          favour(inputs, 20, 8);
          inputs.targets[20] = 10;
        });
        const exact = wanted();
        expect(exact.losses![0]!).toBeLessThan(1e-3);
        expect(exact.losses![20]!).toBeGreaterThan(30);
        expect(Math.abs(results.losses![20]! - exact.losses![20]!)).toBeLessThan(0.5);
        for (const n of [20, 40]) expect(cosineOf(rowOf(results.din!, n), rowOf(exact.din!, n))).toBeGreaterThan(0.999);
        expect(cosineOf(results.dweight!, exact.dweight!)).toBeGreaterThan(0.999);
        for (const n of [0, 1, 2, 3]) expect(norm(rowOf(results.din!, n))).toBeLessThan(1e-3);
        expect(saturated).toBe(0);
      });

      it.each([false, true])('counts rows that saturate, accumulating: %s', (accumulate) => {
        const { results, saturated } = classify(
          40,
          (inputs) => {
            favour(inputs, 20, 9);
            inputs.targets[20] = 10;
          },
          accumulate,
        );
        expect(saturated).toBe(accumulate ? 8 : 1);
        for (const name of outputs) expect(results[name]!.every(Number.isFinite), name).toBe(true);
      });

      const others = (results: Results, bad: readonly number[]) =>
        Array.from(results.losses!, (_, n) => n).filter((n) => !bad.includes(n));
      it.each([
        ['NaN', (inputs: Inputs) => inputs.inValues.fill(Number.NaN, 3 * C + 5, 3 * C + 6)],
        ['infinity', (all: Inputs) => all.inValues.fill(448, 3 * C, 3 * C + 1) && all.inScale.fill(2 ** 120, 3, 4)],
        ...(isCpu ? [] : [['targets that do not exist', (inputs: Inputs) => inputs.targets.fill(V, 3, 4)] as const]),
      ] as const)('gives NaN in the rows of %s alone', (_, change) => {
        const { results } = classify(40, change);
        const { losses, din } = results as Record<string, Float32Array>;
        expect(losses![3]).toBeNaN();
        expect(rowOf(din!, 3).every(Number.isNaN)).toBe(true);
        for (const n of others(results, [3]))
          expect(Number.isFinite(losses![n]) && rowOf(din!, n).every(Number.isFinite)).toBe(true);
        expect(results.dweight!.some(Number.isNaN)).toBe(true);
      });
    });
  },
  { dtypes: ['fp8'] },
);
