// FP8: exact bytes and scales, where they follow from what the op stores; and products of many tiles. fp8-columnwise.test.ts and
// fp8-backward-weight.test.ts have the rest.
import { describe, expect, it } from 'vitest';
import { fromBf16, toE4m3 } from '../../src/base/files/half-floats.ts';
import { blocksOf, elementCount, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import {
  distance,
  floats,
  held,
  largestOf,
  type Numbers,
  norm,
  Random,
  relativeError,
  worstError,
  writeNumbers,
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
import { transposed } from '../../src/ops/cases/fp8-quantize-weight.ts';
import { linear, product } from '../../src/ops/cases/matmul.ts';
import {
  fp8MatmulForward,
  fp8MatmulScratch,
  fp8QuantizeWeight,
  fp8QuantizeWeightScratch,
  normBackward,
  normForward,
  normScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import {
  activated,
  bytesOf,
  differences,
  drawPre,
  emptyResult,
  expectBackwardScales,
  forwardTensors,
  plainForward,
} from '../support/fp8.ts';
import { TensorBench } from '../support/tensors.ts';

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
    /** Quantises a weight, and checks everything that follows from it. */
    function quantizeWeight(weight: Numbers, [O, C]: [number, number], bias: Numbers): Float32Array {
      using bench = new TensorBench(device());
      device().reserveWorkspace(fp8QuantizeWeightScratch(device(), { C, O }));
      const values = bench.tensor('values', [O, C], undefined, 'fp8');
      const turned = bench.tensor('transposed', [C, O], undefined, 'fp8');
      const factors = bench.floats('factors', [4]);
      const op = { weight: bench.tensor('weight', [O, C], weight), bias: bench.tensor('bias', [O], bias) };
      fp8QuantizeWeight(device(), { values, transposed: turned, factors, ...op });
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
      bench.checkGuards();
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
        const bias = random.normals(O);
        expect(quantizeWeight(weight, [O, C], bias)[0], `for ${largest}`).toBe(scaleOf(largest));
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
      function tensors(bench: TensorBench) {
        device().reserveWorkspace(normScratch(device(), { N, C }));
        const random = new Random(C);
        const input = { in: bench.tensor('in', [N, C], rowsOf(random)) };
        const weight = bench.tensor('weight', [C], random.normals(C));
        const statistics = [0, 1].map((value) => bench.floats('statistic', [N], new Float32Array(N).fill(value)));
        const [mean, rstd] = statistics as [Tensor, Tensor];
        const [dweight, dbias] = [bench.floats('dweight', [C]), bench.floats('dbias', [C])];
        const values = bench.tensor('values', [N, C], undefined, 'fp8');
        const stored = { values, scale: bench.floats('scale', [N]), norm: bench.floats('norm', [N]) };
        const rows = bench.tensor('result', [N, C]);
        const residuals = { dresidual: bench.tensor('dresidual', [N, C], rowsOf(random)) };
        const bias = bench.tensor('bias', [C], new Float32Array(C));
        const dout = bench.tensor('dout', [N, C], rowsOf(random));
        const sums = { dweight, ...residuals, dout, accumulate: false };
        return { ...{ input, weight, mean, rstd, dbias, stored, rows, sums }, bias };
      }

      /** Runs an op again, which gives the same results. */
      function expectSameBits(results: readonly Tensor[], run: () => void): void {
        const read = () => results.map((result) => Buffer.from(result.read().buffer as ArrayBuffer));
        const before = read();
        for (const result of results) writeNumbers(result, new Float32Array(elementCount(result.shape)));
        run();
        expect(read().map((bytes, index) => bytes.equals(before[index]!))).toEqual(results.map(() => true));
      }

      it.each(['layernorm', 'RMSNorm'])('%s', (name) => {
        using bench = new TensorBench(device());
        const { input, weight, mean, rstd, dbias, stored, rows, sums, bias } = tensors(bench);
        const isLayernorm = name === 'layernorm';
        const statistics = { mean: isLayernorm ? mean : null, rstd };
        const gradients = { ...sums, dbias: isLayernorm ? dbias : null };
        normBackward(device(), { din: rows, ...stored, ...gradients, ...input, weight, ...statistics });
        expectQuantized(rows, stored);
        const forward = { ...stored, ...statistics, ...input, weight, bias: isLayernorm ? bias : null, eps: 1e-5 };
        normForward(device(), { out: rows, ...forward });
        expectQuantized(rows, stored);
        expect(floats(stored.scale)[5]).toBe(2 ** -126);
        expectSameBits([...Object.values(stored), ...(isLayernorm ? [mean] : []), rstd], () =>
          normForward(device(), { out: null, ...forward }),
        );
        bench.checkGuards();
      });
    });

    /** Products of 16 x 16 numbers, with a weight of ones and rows of twos times a scale. */
    function smallProduct(bench: TensorBench, scale: number) {
      const N = 16;
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C: N, O: N, gradients: false }));
      const matrix = (name: string, value: number) =>
        bench.tensor(name, [N, N], new Float32Array(N * N).fill(value), 'fp8');
      const rows = (name: string, value: number) => bench.floats(name, [N], new Float32Array(N).fill(value));
      const [weight, factors] = [matrix('weight', 1), bench.floats('factors', [4], [1, 4, 4, 0])];
      return { N, matrix, rows, input: matrix('in', 2), inScale: rows('inScale', scale), weight, factors };
    }

    it('gives NaN of either sign and infinity one scale', () => {
      using bench = new TensorBench(device());
      const { N, rows, input, inScale, weight, factors } = smallProduct(bench, 1);
      const bits = Uint32Array.from({ length: N }, (_, n) => [0x7fc00000, 0xffc00000, 0x7fffffff, 0x7f800000][n % 4]!);
      const inNorm = rows('inNorm', 0);
      inNorm.write(new Float32Array(bits.buffer));
      const { values, scale } = emptyResult(bench, N, N);
      const noCopy = { columnwise: null, columnwiseScale: null, inColumnwiseNorm: null };
      activated[0]!.forward(device(), {
        ...{ values, scale, ...noCopy, pre: bench.tensor('pre', [N, N]) },
        ...{ in: input, inScale, inNorm, weight, factors, bias: null },
      });
      expect(floats(scale)).toEqual(new Float32Array(N).fill(2 ** 120));
    });

    it('takes the derivative of a squared ReLU whose result times its scale exceeds fp32', () => {
      using bench = new TensorBench(device());
      const { N, matrix, rows, input, inScale, weight, factors } = smallProduct(bench, 2 ** -90);
      const activatedScale = rows('activatedScale', 2 ** 120);
      const activatedColumnwiseScale = bench.floats('activatedColumnwiseScale', [1], [2 ** 120]);
      const norms = new Float32Array(N).fill(8 * 2 ** -90);
      const stored = emptyResult(bench, N, N);
      activated[1]!.backward(device(), {
        ...{ ...stored, dout: input, doutScale: inScale, doutNorm: bench.floats('doutNorm', [N], norms) },
        ...{ doutColumnwiseNorm: bench.floats('doutColumnwiseNorm', [1], [norms[0]!]), transposed: weight, factors },
        ...{ pre: null, activated: matrix('activated', 256), activatedScale, activatedColumnwiseScale },
      });
      const scales = new Float32Array(N).fill(scaleOf(norms[0]! * 4 * 2 * Math.sqrt(448 * 2 ** 120)));
      expect(floats(stored.scale)).toEqual(scales);
      const wanted = new Float32Array(N * N).fill(N * 2 * 2 ** -90 * 2 ** 65);
      expect(Float32Array.from(scaled(floats(stored.values), scales))).toEqual(wanted);
    });

    // Each row of the input is also one of the weight, and all have the same norm but for scales: an element of each row of the
    // product is as large as Cauchy and Schwarz allow.
    it.each(activated)('bounds what $name stores, closely, and saturates nothing', ({ of, derivative, ...ops }) => {
      using bench = new TensorBench(device());
      const [N, K] = [48, 208];
      device().reserveWorkspace(
        Math.max(
          fp8MatmulScratch(device(), { N, C: K, O: N, gradients: false }),
          fp8QuantizeWeightScratch(device(), { C: K, O: N }),
          fp8QuantizeWeightScratch(device(), { C: N, O: K }),
        ),
      );
      const random = new Random(11);
      const row = held('fp8', random.normals(K, 100));
      const x = Float32Array.from({ length: N * K }, (_, index) => row[index % K]! * (random.uniform() < 0.5 ? -1 : 1));
      const inScales = drawScales(N, random);
      const norms = perRow(scaled(x, inScales), K, norm);
      const weight = bench.tensor('weight', [N, K], scaled(x, 2 ** -9));
      const turned = bench.tensor('weight', [K, N], scaled(transposed(x, N, K), 2 ** -9));
      const bias = bench.tensor('bias', [N], new Float32Array(N).fill(3));
      const [input, inScale] = [bench.tensor('in', [N, K], x, 'fp8'), bench.floats('inScale', [N], inScales)];
      const inNorm = bench.floats('inNorm', [N], norms);
      const blockNorm = bench.floats('inColumnwiseNorm', [1], largestOfBlocks(norms));
      const [values, factors] = [bench.tensor('values', [N, K], undefined, 'fp8'), bench.floats('factors', [4])];
      const stored = emptyResult(bench, N, N);

      const expectBounded = (result: Float64Array) => {
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

      fp8QuantizeWeight(device(), { values, transposed: null, factors, weight, bias });
      ops.forward(device(), {
        ...{ ...stored, pre: bench.tensor('pre', [N, N]), in: input, inScale, inNorm },
        ...{ inColumnwiseNorm: blockNorm, weight: values, factors, bias },
      });
      const exact = linear(scaled(x, inScales), scaled(x, 2 ** -9), undefined, { N, C: K, O: N });
      expectBounded(exact.map((value) => of(value + 3)));

      // GELU's derivative is largest near 1.5, and that of the squared ReLU at its largest input.
      const pre = new Float32Array(N * N).fill(1.5);
      const back = bench.tensor('transposed', [N, K], undefined, 'fp8');
      fp8QuantizeWeight(device(), { values: null, transposed: back, factors, weight: turned, bias: null });
      ops.backward(device(), {
        ...{ ...stored, dout: input, doutScale: inScale, doutNorm: inNorm, doutColumnwiseNorm: blockNorm },
        ...{ transposed: back, factors, ...forwardTensors(bench, pre, N) },
      });
      expectBounded(exact.map((value) => value * derivative(1.5)));
      bench.checkGuards();
    });

    // Several tiles for each SM one after the other, all of their elements, of a short k and of a long one; on an H100 the long
    // ones take narrow tiles and wide ones. Rows of the weight repeat, in a period that no tile has, so that the formula is quick.
    it.skipIf(kind === 'cpu').each([
      [768, 3072],
      [3072, 3072],
      [3072, 2688],
    ])('products of many tiles, K %i, %i columns (CUDA only)', (K, wide) => {
      using bench = new TensorBench(device());
      const [N, period] = [2304, 56];
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C: K, O: wide, gradients: false }));
      const random = new Random(K);
      const repeated = (count: number, values: Numbers) =>
        new Float32Array(count).map((_, index) => values[index % values.length]!);
      const x = repeated(N * K, held('fp8', random.normals(100_003, 100)));
      const inScales = drawScales(N, random);
      const base = held('fp8', random.normals(period * K, 100));
      const { elementType } = device();
      const other = drawPre(N, wide, random);
      const bias = held(elementType, random.normals(wide));
      const rowNorm = Math.fround(largestNorm(base, K) * 2 ** -9);
      const norms = perRow(scaled(x, inScales), K, norm);
      const narrow = product(scaled(x, inScales), scaled(base, 2 ** -9), { N, K, O: period }, 'nt');
      const plain = new Float64Array(N * wide).map(
        (_, i) => narrow[Math.floor(i / wide) * period + ((i % wide) % period)]!,
      );
      const linear = plain.map((value, i) => value + bias[i % wide]!);

      const input = bench.tensor('in', [N, K], x, 'fp8');
      const inScale = bench.floats('inScale', [N], inScales);
      const weight = bench.tensor('weight', [wide, K], repeated(wide * K, base), 'fp8');
      const factors = bench.floats('factors', [4], [2 ** -9, rowNorm, rowNorm, largestOf(bias)]);
      const forward = { in: input, inScale, weight, factors, bias: bench.tensor('bias', [wide], bias) };
      const inNorm = bench.floats('inNorm', [N], norms);
      const blockNorm = bench.floats('inColumnwiseNorm', [blocksOf(N)], largestOfBlocks(norms));
      const [out, pre] = [bench.tensor('out', [N, wide]), bench.tensor('pre', [N, wide])];
      const stored = emptyResult(bench, N, wide);
      const expectNear = (name: string, actual: Numbers, wanted: Numbers, bound: number) => {
        const [error, worst] = [relativeError(actual, wanted), worstError(actual, wanted)];
        expect(error <= bound && worst <= 5 * bound, `${name}: relative error ${error}, worst ${worst}`).toBe(true);
      };
      const expectStored = (name: string, wanted: Numbers) => {
        expectNear(`${name} rowwise`, scaled(floats(stored.values), floats(stored.scale)), wanted, 2.7e-2);
        const copy = scaledColumnwise(floats(stored.columnwise), floats(stored.columnwiseScale), groupsOf(N));
        // Squares of rows with a smaller scale than their block's are partly subnormal: up to 2.71e-2.
        expectNear(`${name} columnwise`, copy, columnwise(wanted, N, wide), 2.8e-2);
      };

      // The rounded result subtracted, bf16 shows the error of the sums alone.
      const rounded = held(elementType, linear);
      const residual = bench.tensor(
        'residual',
        [N, wide],
        rounded.map((value) => -value),
      );
      fp8MatmulForward(device(), { ...plainForward, out, ...forward, residual });
      const rest = linear.map((value, i) => value - rounded[i]!);
      const error = distance(floats(out), rest) / norm(linear);
      console.log(`sums of ${K} products of FP8 have a relative error of ${error.toExponential(2)}`);
      expect(error).toBeLessThan(1e-3);
      fp8MatmulForward(device(), { ...plainForward, out, ...forward, residual: null });
      expectNear('out', floats(out), linear, 2e-3);
      const ofForward = forwardTensors(bench, other, wide);
      const backward = {
        ...{ dout: input, doutScale: inScale, doutNorm: inNorm, doutColumnwiseNorm: blockNorm },
        ...{ transposed: weight, factors, ...ofForward },
      };
      for (const { name, of, derivative, derivativeBound, ...ops } of activated) {
        ops.forward(device(), { pre, ...stored, ...forward, inNorm, inColumnwiseNorm: blockNorm });
        expectStored(name, linear.map(of));
        ops.backward(device(), { ...stored, ...backward });
        expectStored(
          `din through ${name}`,
          plain.map((value, i) => value * derivative(other[i]!)),
        );
        expectBackwardScales(stored, norms, ofForward, (scale) => Math.fround(derivativeBound(scale) * rowNorm));
      }
      expectNear('pre', floats(pre), linear, 2e-3);
      bench.checkGuards();
    });
  },
  { dtypes: ['fp8'] },
);
