// Gradients of weights in FP8, products of columnwise copies: compared with sums over rows in double, NaN, and many tiles.
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { blocksOf, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, held, type Numbers, Random, relativeError } from '../../src/ops/cases/case-numbers.ts';
import { columnwise, drawScales, scaled } from '../../src/ops/cases/fp8.ts';
import { columnSums, product } from '../../src/ops/cases/matmul.ts';
import { fp8MatmulBackwardWeight, fp8MatmulScratch, fp8Transpose } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { bytesOf, emptyCopy } from '../support/fp8.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends(
  'weight gradients in FP8',
  (device, kind) => {
    const isCpu = kind === 'cpu';
    const sizes = { N: 1102, C: 48, O: 80 };
    /** Rows in FP8, and their columnwise copy. */
    function drawn(bench: TensorBench, name: string, random: Random, C: number) {
      const { N } = sizes;
      const values = held('fp8', random.normals(N * C, 100));
      const scales = drawScales(N, random).map((scale, n) => scale / 4 ** (n >> 9));
      const copy = emptyCopy(bench, N, C);
      fp8Transpose(device(), {
        ...{ ...copy, values: bench.tensor(name, [N, C], values, 'fp8'), scale: bench.floats('scale', [N], scales) },
        norm: bench.floats('norm', [N]),
      });
      return { rows: scaled(values, scales), ...copy };
    }

    function operation(bench: TensorBench) {
      const { N, C, O } = sizes;
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C, O, gradients: true }));
      const random = new Random(6);
      const [dout, input] = [drawn(bench, 'dout', random, O), drawn(bench, 'in', random, C)];
      const dweight = bench.tensor('dweight', [O, C], undefined, device().gradientType);
      const tensors = {
        ...{ dweight, dbias: bench.floats('dbias', [O]) },
        ...{ dout: dout.columnwise, doutScale: dout.columnwiseScale },
        ...{ in: input.columnwise, inScale: input.columnwiseScale, N, accumulate: false },
      };
      return { dout, input, tensors };
    }

    // A copy rounds only values that are small for their block.
    it('is that of the rows', () => {
      using bench = new TensorBench(device());
      const { dout, input, tensors } = operation(bench);
      const { N, C, O } = sizes;
      fp8MatmulBackwardWeight(device(), tensors);
      const dweight = product(dout.rows, input.rows, { N: O, K: N, O: C }, 'tn');
      expect(relativeError(floats(tensors.dweight), dweight)).toBeLessThan(isCpu ? 2e-4 : 2.5e-3);
      expect(relativeError(floats(tensors.dbias), columnSums(dout.rows, O))).toBeLessThan(2e-4);
      bench.checkGuards();
    });

    it('is NaN where an operand is', () => {
      using bench = new TensorBench(device());
      const { dout, input, tensors } = operation(bench);
      const { C, O } = sizes;
      // Row 0 of column 5, row 1100 of column 7.
      const width = groupsOf(sizes.N) * 16;
      const put = (tensor: Tensor, index: number) => {
        const bytes = bytesOf(tensor);
        bytes[index] = 0x7f;
        tensor.write(bytes);
      };
      put(dout.columnwise, 5 * width);
      put(input.columnwise, 7 * width + Math.floor(1100 / 16) * 16 + 2 * ((1100 % 16) % 8) + 1);
      fp8MatmulBackwardWeight(device(), tensors);
      const isWanted = (value: number, index: number) =>
        Number.isNaN(value) === (Math.floor(index / C) === 5 || index % C === 7);
      expect(floats(tensors.dweight).every(isWanted)).toBe(true);
      expect(floats(tensors.dbias).map((value, o) => Number(Number.isNaN(value) === (o === 5)))).toEqual(
        new Float32Array(O).fill(1),
      );
      bench.checkGuards();
    });

    // Tiles for each SM several times over; gradients in fp32 show the error of the sums alone.
    it.skipIf(isCpu)('of many tiles (CUDA only)', () => {
      using accumulating = Device.open({ kind, dtype: 'fp8', accumulates: true });
      using bench = new TensorBench(accumulating);
      const [N, C, O] = [2008, 784, 6160];
      accumulating.reserveWorkspace(fp8MatmulScratch(accumulating, { N, C, O, gradients: true }));
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
      const operands = { dout: dout.copy, doutScale: dout.scale, in: input.copy, inScale: input.scale, N };
      for (const [accumulate, times] of [
        [false, 1],
        [true, 2],
      ] as const) {
        fp8MatmulBackwardWeight(accumulating, { dweight, dbias, ...operands, accumulate });
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
      bench.checkGuards();
    });
  },
  { dtypes: ['fp8'] },
);
