// FP8: exact bytes and scales, where they follow from what the op stores; and products of many tiles. fp8-columnwise.test.ts and
// fp8-backward-weight.test.ts have the rest.
import { describe, expect, it } from 'vitest';
import { fromBf16, toE4m3 } from '../../src/files/half-floats.ts';
import { elementCount, type Tensor } from '../../src/native/buffer.ts';
import {
  blockScales,
  columnwise,
  drawScales,
  largestRowSum,
  powerOfTwoFrom,
  scaled,
  scaledColumnwise,
  scaleOf,
} from '../../src/op-cases/fp8.ts';
import { transposed } from '../../src/op-cases/fp8-quantize-weight.ts';
import { gelu, geluDerivative } from '../../src/op-cases/gelu.ts';
import { product } from '../../src/op-cases/matmul.ts';
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
} from '../../src/op-cases/numbers.ts';
import { blocksOf, groupsOf } from '../../src/ops/columnwise.ts';
import {
  fp8Matmul,
  fp8MatmulGeluBackwardInput,
  fp8MatmulGeluForward,
  fp8MatmulReluSquaredBackwardInput,
  fp8MatmulReluSquaredForward,
  fp8MatmulScratch,
  fp8QuantizeWeight,
  fp8QuantizeWeightScratch,
  layernormFp8Backward,
  layernormFp8Forward,
  layernormScratch,
  rmsnormFp8Backward,
  rmsnormFp8Forward,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { bytesOf, differences } from '../support/fp8.ts';
import { TensorBench } from '../support/tensors.ts';

/** Rows were stored in FP8 by their largest elements; rows of NaN by any scale. */
function expectQuantized(rows: Tensor, values: Tensor, scale: Tensor): void {
  const [numbers, scales, width] = [floats(rows), floats(scale), rows.shape.at(-1)!];
  const wrong = Array.from(scales, (_, n) => n).filter((n) => {
    const row = numbers.subarray(n * width, (n + 1) * width);
    return !row.some(Number.isNaN) && scales[n] !== scaleOf(largestOf(row, 0));
  });
  expect(wrong, `rows of ${rows.name} with another scale`).toEqual([]);
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
      const [scale, ...sums] = floats(factors);
      const wanted = toE4m3(held(device().elementType, weight).map((value) => value / scale!));
      expect(differences(bytesOf(values), wanted), 'values').toEqual([]);
      const columns = Uint8Array.from(transposed(Int32Array.from(wanted), O, C));
      expect(differences(bytesOf(turned), columns), 'transposed').toEqual([]);
      const exact = [
        largestRowSum(scaled(floats(values), scale!), C),
        largestRowSum(scaled(floats(turned), scale!), O),
        largestOf(held(device().elementType, bias)),
      ];
      if (!weight.some(Number.isNaN)) expect(relativeError(sums, exact)).toBeLessThan(1e-6);
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
        device().reserveWorkspace(layernormScratch(device(), { N, C }));
        const random = new Random(C);
        const input = { in: bench.tensor('in', [N, C], rowsOf(random)) };
        const weight = bench.tensor('weight', [C], random.normals(C));
        const statistics = [0, 1].map((value) => bench.floats('statistic', [N], new Float32Array(N).fill(value)));
        const [mean, rstd] = statistics as [Tensor, Tensor];
        const [dweight, dbias] = [bench.floats('dweight', [C]), bench.floats('dbias', [C])];
        const stored = { values: bench.tensor('values', [N, C], undefined, 'fp8'), scale: bench.floats('scale', [N]) };
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

      it('layernorm', () => {
        using bench = new TensorBench(device());
        const { input, weight, mean, rstd, dbias, stored, rows, sums, bias } = tensors(bench);
        const { values, scale } = stored;
        layernormFp8Backward(device(), { din: rows, ...stored, ...sums, dbias, ...input, weight, mean, rstd });
        expectQuantized(rows, values, scale);
        layernormFp8Forward(device(), { out: rows, ...stored, mean, rstd, ...input, weight, bias });
        expectQuantized(rows, values, scale);
        expect(floats(scale)[5]).toBe(2 ** -126);
        expectSameBits([values, scale, mean, rstd], () =>
          layernormFp8Forward(device(), { out: null, ...stored, mean, rstd, ...input, weight, bias }),
        );
        bench.checkGuards();
      });

      it('RMSNorm', () => {
        using bench = new TensorBench(device());
        const { input, weight, rstd, stored, rows, sums } = tensors(bench);
        const { values, scale } = stored;
        rmsnormFp8Backward(device(), { din: rows, ...stored, ...sums, ...input, weight, rstd });
        expectQuantized(rows, values, scale);
        rmsnormFp8Forward(device(), { out: rows, ...stored, rstd, ...input, weight, eps: 1e-5 });
        expectQuantized(rows, values, scale);
        expect(floats(scale)[5]).toBe(2 ** -126);
        expectSameBits([values, scale, rstd], () =>
          rmsnormFp8Forward(device(), { out: null, ...stored, rstd, ...input, weight, eps: 1e-5 }),
        );
        bench.checkGuards();
      });
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
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C: K, O: wide }));
      const random = new Random(K);
      const repeated = (count: number, values: Numbers) =>
        new Float32Array(count).map((_, index) => values[index % values.length]!);
      const x = repeated(N * K, held('fp8', random.normals(100_003, 100)));
      const inScales = drawScales(N, random);
      const base = held('fp8', random.normals(period * K, 100));
      const { elementType } = device();
      const other = repeated(N * wide, held(elementType, random.normals(100_003)));
      const bias = held(elementType, random.normals(wide));
      const sum = largestRowSum(base, K) * 2 ** -9;
      const narrow = product(scaled(x, inScales), scaled(base, 2 ** -9), { N, K, O: period }, 'nt');
      const plain = new Float64Array(N * wide).map(
        (_, i) => narrow[Math.floor(i / wide) * period + ((i % wide) % period)]!,
      );
      const linear = plain.map((value, i) => value + bias[i % wide]!);

      const input = bench.tensor('in', [N, K], x, 'fp8');
      const inScale = bench.floats('inScale', [N], inScales);
      const weight = bench.tensor('weight', [wide, K], repeated(wide * K, base), 'fp8');
      const factors = bench.floats('factors', [4], [2 ** -9, sum, sum, largestOf(bias)]);
      const forward = { in: input, inScale, weight, factors, bias: bench.tensor('bias', [wide], bias) };
      const backward = { dout: input, doutScale: inScale, transposed: weight, factors };
      const [out, pre] = [bench.tensor('out', [N, wide]), bench.tensor('pre', [N, wide])];
      const [groups, blocks] = [groupsOf(N), blocksOf(N)];
      const stored = {
        ...{ values: bench.tensor('values', [N, wide], undefined, 'fp8'), scale: bench.floats('scale', [N]) },
        columnwise: bench.tensor('columnwise', [wide, groups, 16], undefined, 'fp8'),
        columnwiseScale: bench.floats('columnwiseScale', [blocks]),
      };
      const columnwiseScale = bench.floats('inColumnwiseScale', [blocks], blockScales(inScales));
      const expectNear = (name: string, actual: Numbers, wanted: Numbers, bound: number) => {
        const [error, worst] = [relativeError(actual, wanted), worstError(actual, wanted)];
        expect(error <= bound && worst <= 5 * bound, `${name}: relative error ${error}, worst ${worst}`).toBe(true);
      };
      const expectStored = (name: string, wanted: Numbers) => {
        expectNear(`${name} rowwise`, scaled(floats(stored.values), floats(stored.scale)), wanted, 2.7e-2);
        const copy = scaledColumnwise(floats(stored.columnwise), floats(stored.columnwiseScale), groups);
        expectNear(`${name} columnwise`, copy, columnwise(wanted, N, wide), 2.7e-2);
      };

      // The rounded result subtracted, bf16 shows the error of the sums alone.
      const rounded = held(elementType, linear);
      const residual = bench.tensor(
        'residual',
        [N, wide],
        rounded.map((value) => -value),
      );
      fp8Matmul(device(), { out, ...forward, residual });
      const rest = linear.map((value, i) => value - rounded[i]!);
      const error = distance(floats(out), rest) / norm(linear);
      console.log(`sums of ${K} products of FP8 have a relative error of ${error.toExponential(2)}`);
      expect(error).toBeLessThan(1e-3);
      fp8Matmul(device(), { out, ...forward, residual: null });
      expectNear('out', floats(out), linear, 2e-3);
      fp8MatmulGeluForward(device(), { pre, ...stored, ...forward, inColumnwiseScale: columnwiseScale });
      expectNear('pre', floats(pre), linear, 2e-3);
      expectStored('gelu', linear.map(gelu));
      fp8MatmulReluSquaredForward(device(), { out, ...forward });
      const squares = linear.map((value) => Math.max(value, 0) ** 2);
      expectNear('relu squared', floats(out), squares, 3e-3);
      const before = bench.tensor('pre', [N, wide], other);
      const through = { ...backward, doutColumnwiseScale: columnwiseScale, pre: before };
      fp8MatmulGeluBackwardInput(device(), { ...stored, ...through });
      expectStored(
        'din through gelu',
        plain.map((value, i) => value * geluDerivative(other[i]!)),
      );
      const bound = Math.fround(Math.fround(1.13) * Math.fround(sum));
      const scales = inScales.map((one) => powerOfTwoFrom(one * bound));
      expect(floats(stored.scale)).toEqual(scales);
      expect(floats(stored.columnwiseScale)).toEqual(blockScales(scales));
      const sizes = other.map(Math.abs);
      fp8MatmulReluSquaredBackwardInput(device(), {
        ...{ din: out, ...backward },
        activated: bench.tensor('activated', [N, wide], sizes),
      });
      const throughSquares = plain.map((value, i) => value * 2 * Math.sqrt(sizes[i]!));
      expectNear('din through relu squared', floats(out), throughSquares, 2e-3);
      bench.checkGuards();
    });
  },
  { dtypes: ['fp8'] },
);
