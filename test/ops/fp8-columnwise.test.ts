// Columnwise copies in FP8: exact order, padding and scales, each copy rounded once, NaN.
import { describe, expect, it } from 'vitest';
import { fromE4m3, toE4m3 } from '../../src/base/files/half-floats.ts';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import { blocksOf, groupsOf } from '../../src/native/element-types.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, held, type Numbers, norm, Random } from '../../src/ops/cases/case-numbers.ts';
import {
  columnwise,
  drawScales,
  largestNorm,
  largestOfBlocks,
  perRow,
  rowwise,
  scaled,
  scaledColumnwise,
  scaleOf,
} from '../../src/ops/cases/fp8.ts';
import { linear } from '../../src/ops/cases/matmul.ts';
import { fp8MatmulForward, fp8MatmulScratch, fp8Transpose } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import {
  activated,
  bytesOf,
  differences,
  drawPre,
  emptyCopy,
  emptyResult,
  expectBackwardScales,
  forwardTensors,
} from '../support/fp8.ts';
import { TensorBench } from '../support/tensors.ts';

describeBackends(
  'columnwise FP8',
  (device, kind) => {
    const isCpu = kind === 'cpu';

    function transpose(values: Numbers, scale: Numbers, C: number) {
      using bench = new TensorBench(device());
      const N = scale.length;
      const copy = emptyCopy(bench, N, C);
      const norms = perRow(scaled(values, scale), C, norm);
      fp8Transpose(device(), {
        ...{ ...copy, values: bench.tensor('values', [N, C], values, 'fp8'), scale: bench.floats('scale', [N], scale) },
        norm: bench.floats('norm', [N], norms),
      });
      bench.checkGuards();
      return {
        bytes: bytesOf(copy.columnwise),
        scales: floats(copy.columnwiseScale),
        norms,
        columnwiseNorm: floats(copy.columnwiseNorm),
      };
    }

    describe('transpose', () => {
      it.each([1, 8, 9, 16, 37, 512, 1030])('puts %i rows in order, and zeros after them', (N) => {
        const C = 48;
        const values = held('fp8', new Random(N).normals(N * C, 100));
        const { bytes } = transpose(values, new Float32Array(N).fill(1), C);
        const rows = toE4m3(values);
        const wanted = new Uint8Array(C * groupsOf(N) * 16);
        for (let n = 0; n < N; n++) {
          const [a, b, r] = [n >> 4, (n >> 3) & 1, n & 7];
          for (let c = 0; c < C; c++) wanted[(c * groupsOf(N) + a) * 16 + 2 * r + b] = rows[n * C + c]!;
        }
        expect(Buffer.from(bytes).equals(wanted)).toBe(true);
      });

      it('refuses a copy of other sizes', () => {
        using bench = new TensorBench(device());
        const [N, C] = [1030, 48];
        const rows = {
          ...{ values: bench.tensor('values', [N, C], undefined, 'fp8'), scale: bench.floats('scale', [N]) },
          ...{ norm: bench.floats('norm', [N]), columnwiseNorm: bench.floats('columnwiseNorm', [3]) },
        };
        const attempt = (shape: readonly number[], blocks: number) => () =>
          fp8Transpose(device(), {
            ...{ ...rows, columnwise: bench.tensor('copy', shape, undefined, 'fp8') },
            columnwiseScale: bench.floats('scales', [blocks]),
          });
        expect(attempt([C, 64, 16], 3)).toThrow('columnwise [C,N/16,16] has N/16 = 64, but values has N = 1030');
        expect(attempt([C, 65, 8], 3)).toThrow('columnwise [C,N/16,16] has 16 = 8, but must have 16');
        expect(attempt([C, 65, 16], 2)).toThrow('columnwiseScale [N/512] has N/512 = 2, but values has N = 1030');
      });

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

    /** Operands of a product whose weight [O,C] may be a transposed one, and rows' scales, a block's smaller than that before. */
    function operands(bench: TensorBench, { N, C, O }: { N: number; C: number; O: number }) {
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C, O, gradients: false }));
      const random = new Random(N + O);
      const [x, weights] = [N, O].map((rows) => held('fp8', random.normals(rows * C, 100))) as [
        Float32Array,
        Float32Array,
      ];
      const scales = drawScales(N, random).map((scale, n) => scale / 4 ** (n >> 9));
      const rowNorm = Math.fround(largestNorm(weights, C) * 2 ** -9);
      const norms = perRow(scaled(x, scales), C, norm);
      return {
        plain: linear(scaled(x, scales), scaled(weights, 2 ** -9), undefined, { N, C, O }),
        norms,
        input: bench.tensor('in', [N, C], x, 'fp8'),
        inScale: bench.floats('inScale', [N], scales),
        inNorm: bench.floats('inNorm', [N], norms),
        blockNorm: bench.floats('inColumnwiseNorm', [blocksOf(N)], largestOfBlocks(norms)),
        weight: bench.tensor('weight', [O, C], weights, 'fp8'),
        factors: bench.floats('factors', [4], [2 ** -9, rowNorm, rowNorm, 0]),
        rowNorm,
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

    function expectStored(stored: ReturnType<typeof emptyResult>, result: Float64Array): void {
      const [N, O] = stored.values.shape as [number, number];
      const of = (length: number) => new Float32Array(length).fill(1);
      const rowScales = scaled(of(N * O), floats(stored.scale));
      expectRounded('rowwise', stored.values, scaled(floats(stored.values), floats(stored.scale)), result, rowScales);
      const turned = columnwise(result, N, O);
      const scales = floats(stored.columnwiseScale);
      const own = scaledColumnwise(floats(stored.columnwise), scales, groupsOf(N));
      const blocks = scaledColumnwise(of(turned.length), scales, groupsOf(N));
      expectRounded('columnwise', stored.columnwise, own, turned, blocks);
      expectPadded(stored.columnwise, N, O);
    }

    /** Rows past N are zeros. */
    function expectPadded(copy: Tensor, N: number, O: number): void {
      const padding = bytesOf(copy).filter((_, i) => {
        return Math.floor(i / 16) % groupsOf(N) === groupsOf(N) - 1 && (i & 1) * 8 + ((i >> 1) & 7) >= N % 16;
      });
      expect(padding).toEqual(new Uint8Array(O * (groupsOf(N) * 16 - N)));
    }

    describe.each(activated)('$name', ({ of, derivative, boundOf, derivativeBound, forward: run, backward }) => {
      it.each([37, 549])('is stored, and its gradient, in both copies, %i rows', (N) => {
        using bench = new TensorBench(device());
        const [C, O] = [64, 208];
        const { plain, norms, input, inScale, inNorm, blockNorm, weight, factors, rowNorm } = operands(bench, {
          N,
          C,
          O,
        });
        const stored = emptyResult(bench, N, O);
        const pre = bench.tensor('pre', [N, O]);
        const forward = { in: input, inScale, inNorm, inColumnwiseNorm: blockNorm, weight, factors, bias: null };
        run(device(), { ...stored, pre, ...forward });
        expect(floats(stored.scale)).toEqual(norms.map((own) => scaleOf(boundOf(Math.fround(own * rowNorm)))));
        expect(floats(stored.columnwiseScale)).toEqual(largestOfBlocks(floats(stored.scale)));
        expectStored(stored, plain.map(of));
        const rowwiseOnly = [stored.values, stored.scale].map((tensor) => tensor.read());
        run(device(), {
          ...{ ...stored, pre, ...forward },
          ...{ columnwise: null, columnwiseScale: null, inColumnwiseNorm: null },
        });
        expect([stored.values, stored.scale].map((tensor) => tensor.read())).toEqual(rowwiseOnly);

        // Without the mask, the bias would fill the padding.
        const biases = Float32Array.from({ length: O }, (_, index) => [-30, Number.POSITIVE_INFINITY, 2][index % 3]!);
        run(device(), { ...stored, pre, ...forward, bias: bench.tensor('bias', [O], biases) });
        expectPadded(stored.columnwise, N, O);

        const before = drawPre(N, O, new Random(5));
        const ofForward = forwardTensors(bench, before, O);
        backward(device(), {
          ...{ ...stored, dout: input, doutScale: inScale, doutNorm: inNorm, doutColumnwiseNorm: blockNorm },
          ...{ transposed: weight, factors, ...ofForward },
        });
        expectBackwardScales(stored, norms, ofForward, (scale) => Math.fround(derivativeBound(scale) * rowNorm));
        expectStored(
          stored,
          plain.map((value, index) => value * derivative(before[index]!)),
        );
        bench.checkGuards();
      });
    });

    it('reaches the bound, and saturates past it, in both copies', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [37, 64, 208];
      const { input, inScale, inNorm, blockNorm, weight, factors } = operands(bench, { N, C, O });
      const stored = emptyResult(bench, N, O);
      const bias = bench.tensor('bias', [O], new Float32Array(O));
      const forward = { in: input, inScale, inNorm, inColumnwiseNorm: blockNorm, weight, factors, bias };
      const run = () => activated[0]!.forward(device(), { ...stored, pre: bench.tensor('pre', [N, O]), ...forward });
      // All elements are as large as the row's largest, and so are the weights': results are the bound itself.
      input.write(toE4m3(new Float32Array(N * C).fill(448)));
      const norms = floats(inScale).map((one) => one * 448 * Math.sqrt(C));
      inNorm.write(norms);
      blockNorm.write(largestOfBlocks(norms));
      weight.write(toE4m3(new Float32Array(O * C).fill(256)));
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 2, 0, 0));
      run();
      expect(floats(stored.values).every((value) => value === 448)).toBe(true);
      expect(floats(stored.scale)).toEqual(floats(inScale).map((one) => (one * C) / 2));
      const rows = () => {
        const scales = floats(stored.columnwiseScale);
        return rowwise(scaledColumnwise(floats(stored.columnwise), scales, groupsOf(N)), N, O);
      };
      expect(rows()).toEqual(scaled(floats(stored.values), floats(stored.scale)));
      // A smaller bound than the results have, and an infinite one.
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 64, 0, 0));
      run();
      expect(floats(stored.values).every((value) => value === 448)).toBe(true);
      const largest = 448 * floats(stored.columnwiseScale)[0]!;
      expect(Math.max(...rows())).toBe(largest);
      factors.write(Float32Array.of(2 ** -9, Math.sqrt(C) / 2, 0, Number.POSITIVE_INFINITY));
      const biases = new Float32Array(O);
      biases[5] = Number.POSITIVE_INFINITY;
      biases[6] = Number.NaN;
      forward.bias = bench.tensor('bias', [O], biases);
      run();
      for (const copy of [floats(stored.values), rowwise(floats(stored.columnwise), N, O)]) {
        expect([...new Set(copy.filter((_, index) => index % O === 5))]).toEqual([448]);
        expect([...new Set(copy.filter((_, index) => index % O === 6))]).toEqual([Number.NaN]);
        expect([...new Set(copy.filter((_, index) => index % O === 7))]).toEqual([0]);
      }
      const expectInfinite = () => {
        const scales = [...floats(stored.scale), ...floats(stored.columnwiseScale)];
        expect(scales.every((one) => one === 2 ** 120)).toBe(true);
      };
      expectInfinite();
      // A finite bound whose square is not.
      factors.write(Float32Array.of(2 ** -9, 2 ** 70, 0, 0));
      forward.bias = bench.tensor('bias', [O], new Float32Array(O));
      activated[1]!.forward(device(), { ...stored, pre: null, ...forward });
      expectInfinite();
      expect(floats(stored.values).every((value) => value === 0)).toBe(true);
      bench.checkGuards();
    });

    // 20.5 becomes 20 rowwise; in units of 8, the smallest of the columnwise copy, 20.5 is nearer to 3, and 20 would be rounded to 2.
    // ReLU's 4.5 squared is 20.25. Norms and factors are such that the scales are 1 and 4096.
    it.each([
      { ...activated[0]!, weights: [20, 0.5], rowNorm: 448, blockNorm: 4096, at: 100 },
      { ...activated[1]!, weights: [4, 0.5], rowNorm: 20, blockNorm: 64, at: 0.5 },
    ])('rounds each copy of $name once, and keeps NaN in its row', ({ forward, backward, ...own }) => {
      using bench = new TensorBench(device());
      const [N, C] = [21, 16];
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C, O: C, gradients: false }));
      const x = Float32Array.from({ length: N * C }, (_, index) => (index % C < 2 ? 1 : 0));
      x.fill(0, 17 * C, 18 * C);
      x[3 * C] = Number.NaN;
      const scale = new Float32Array(N).fill(1);
      scale[17] = 4096;
      const weightOf = (weights: readonly number[]) =>
        bench.tensor(
          'weight',
          [C, C],
          Float32Array.from({ length: C * C }, (_, index) => weights[index % C] ?? 0),
          'fp8',
        );
      const [input, inScale] = [bench.tensor('in', [N, C], x, 'fp8'), bench.floats('inScale', [N], scale)];
      const inNorm = bench.floats('inNorm', [N], new Float32Array(N).fill(1));
      const factors = bench.floats('factors', [4], [1, own.rowNorm, 300, 0]);
      const stored = emptyResult(bench, N, C);
      const expectOnce = () => {
        const wanted = (value: number) =>
          Float32Array.from({ length: N * C }, (_, index) => {
            const row = Math.floor(index / C);
            return row === 3 ? Number.NaN : row === 17 ? 0 : value;
          });
        expect(floats(stored.values)).toEqual(wanted(20));
        expect(rowwise(floats(stored.columnwise), N, C)).toEqual(Float64Array.from(wanted(3 * 2 ** -9)));
        expect(floats(stored.columnwiseScale)).toEqual(Float32Array.of(4096));
      };
      forward(device(), {
        ...{ ...stored, pre: bench.tensor('pre', [N, C]), in: input, inScale, inNorm },
        inColumnwiseNorm: bench.floats('inColumnwiseNorm', [1], [own.blockNorm]),
        ...{ weight: weightOf(own.weights), factors, bias: null },
      });
      expectOnce();
      const through = (pre: number) =>
        backward(device(), {
          ...{ ...stored, dout: input, doutScale: inScale, doutNorm: inNorm },
          doutColumnwiseNorm: bench.floats('doutColumnwiseNorm', [1], [4096]),
          ...{ transposed: weightOf([20, 0.5]), factors },
          ...forwardTensors(bench, new Float32Array(N * C).fill(pre), C),
        });
      through(own.at);
      expectOnce();
      through(Number.NaN);
      expect([...floats(stored.values), ...rowwise(floats(stored.columnwise), N, C)].every(Number.isNaN)).toBe(true);
      bench.checkGuards();
    });

    it('takes the columnwise tensors together, or none of them', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [37, 64, 208];
      const { input, inScale, inNorm, blockNorm, weight, factors } = operands(bench, { N, C, O });
      const forward = { in: input, inScale, inNorm, inColumnwiseNorm: blockNorm, weight, factors, bias: null };
      const stored = { ...emptyResult(bench, N, O), pre: bench.tensor('pre', [N, O]) };
      const args = { out: null, ...stored, ...forward, residual: null };
      const native = Object.entries(args).map(([name, tensor]) => [name, tensor?.pointer ?? null]);
      const sizes = { N, C, O, activation: GPT2_ACTIVATION.GPT2_GELU };
      for (const [missing, wrong] of [
        [['columnwise'], 'columnwiseScale'],
        [['columnwiseScale'], 'columnwiseScale'],
        [['inColumnwiseNorm'], 'inColumnwiseNorm'],
        [['columnwise', 'inColumnwiseNorm'], 'columnwiseScale'],
      ] as const) {
        const nulls = Object.fromEntries(missing.map((name) => [name, null]));
        const refused = `expected both ${wrong} and columnwise, or neither`;
        expect(() => fp8MatmulForward(device(), { ...args, ...sizes, ...nulls })).toThrow(refused);
        expect(() =>
          device().call('fp8MatmulForward', { ...Object.fromEntries(native), ...sizes, ...nulls } as never),
        ).toThrow(
          refused.replace(
            wrong,
            wrong.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
          ),
        );
      }
    });
  },
  { dtypes: ['fp8'] },
);
