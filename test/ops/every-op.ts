// Every op in every library and dtype against its formula in double (src/ops/cases): all sizes, and every way to call it at the
// first. Then what cases lack: products of many tiles, attention of many heads, ids that do not exist.

import { describe, expect, it } from 'vitest';
import { type Device, type Dtype, elementTypesOf } from '../../src/native/device.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { attention } from '../../src/ops/cases/attention.ts';
import { floats, held, type Numbers, Random } from '../../src/ops/cases/case-numbers.ts';
import { gelu, geluDerivative } from '../../src/ops/cases/gelu.ts';
import { opCases } from '../../src/ops/cases/index.ts';
import { columnSums, product } from '../../src/ops/cases/matmul.ts';
import { type Bound, callingsOf, isAffected, type OpCases, sizesOf } from '../../src/ops/cases/op-case.ts';
import { type Comparison, runCase } from '../../src/ops/cases/run-case.ts';
import { opVariants } from '../../src/ops/variants.ts';
import { describeBackends } from '../support/backends.ts';
import { expectClose, relativeError, TensorBench } from '../support/tensors.ts';

const failures = (comparisons: readonly Comparison[]): readonly Comparison[] =>
  comparisons.filter(({ isWithin }) => !isWithin);

function describeCases(device: () => Device, cases: OpCases, isCpu: boolean): void {
  const titled = (sizes: object) => JSON.stringify(sizes).replace(/[{}"]/g, '');
  const all = [...cases.sizes, ...(isCpu ? [] : (cases.gpuSizes ?? []))];
  it.each(all.map((sizes, index) => [titled(sizes), sizes, index] as const))('%s', async (_, sizes, index) => {
    const callings = callingsOf(cases).filter((calling) => index === 0 || calling.accumulate || isPlain(calling));
    for (const calling of callings) expect(failures(await runCase(device(), cases, sizes, calling))).toEqual([]);
  });
}

const isPlain = ({ accumulate, without, inPlace }: ReturnType<typeof callingsOf>[number]): boolean =>
  !accumulate && without.length === 0 && Object.keys(inPlace).length === 0;

it('every op has cases', () => {
  const covered = Object.values(opCases).flatMap((list) => list.map(({ variant }) => variant.name));
  // Collectives take several ranks: test/ops/collectives.slow.test.ts.
  const collectives = ['all_reduce', 'reduce_scatter', 'all_gather', 'global_norm.of_ranks'];
  expect([...covered, ...collectives].sort()).toEqual(opVariants.map(({ name }) => name).sort());
});

/** Random inputs that are already what the device will hold. */
function inputsOf(bench: TensorBench, seed: number) {
  const random = new Random(seed);
  return (name: string, shape: readonly number[], scale = 1, type = bench.device.elementType) => {
    const count = shape.reduce((total, size) => total * size, 1);
    const values = held(type, random.normals(count, scale));
    return { tensor: bench.tensor(name, shape, values, type), values };
  };
}

const plus = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  new Float64Array(a).map((value, index) => value + b[index]!);

type PlainDtype = Exclude<Dtype, 'fp8'>;

/** Both errors within the bound of a dtype. */
function expectNear(name: string, dtype: PlainDtype, actual: Tensor, wanted: Numbers, bounds: Bound): void {
  const limit = dtype === 'tf32' ? (bounds.tf32 ?? bounds.fp32) : bounds[dtype];
  expectClose(name, floats(actual), wanted, limit, 5 * limit);
}

/** The suite for one dtype. */
export const describeEveryOp = (only: Dtype): void =>
  describeBackends(
    'every op',
    (device, kind, dtype) => {
      const isCpu = kind === 'cpu';
      const precise = { dtype, ...elementTypesOf({ kind, dtype }) };
      for (const cases of Object.values(opCases).flat()) {
        if (isAffected(cases, precise)) describe(cases.variant.name, () => describeCases(device, cases, isCpu));
      }

      // The ops with tensors in FP8; fp8.test.ts has the rest about them.
      if (dtype === 'fp8') return;

      // Several tiles for each SM one after the other, all of their elements: of a short k, and of a long one on whose columns
      // only Hopper's narrow tiles come out even. Columns of the weight repeat, in a period that no tile has, so that the
      // formula is quick.
      const tiled = [{ N: 4096, K: 768, wide: 3072 }, ...(dtype === 'bf16' ? [{ N: 2500, K: 4160, wide: 1592 }] : [])];
      it.skipIf(isCpu).each(tiled)('matmul of many tiles, K $K (CUDA only)', ({ N, K, wide }) => {
        using bench = new TensorBench(device());
        const period = 56;
        const input = inputsOf(bench, 12);
        const [x, other, bias] = [input('in', [N, K]), input('other', [N, wide]), input('bias', [wide])];
        const type = device().elementType;
        const base = held(type, new Random(13).normals(period * K, 0.2));
        const lines = new Float32Array(wide * K).map((_, i) => base[(Math.floor(i / K) % period) * K + (i % K)]!);
        const columns = new Float32Array(K * wide).map((_, i) => lines[(i % wide) * K + Math.floor(i / wide)]!);
        const [weight, turned] = [bench.tensor('w', [wide, K], lines), bench.tensor('w', [K, wide], columns)];
        const narrow = product(x.values, base, { N, K, O: period }, 'nt');
        const plain = new Float64Array(N * wide).map(
          (_, i) => narrow[Math.floor(i / wide) * period + ((i % wide) % period)]!,
        );
        const linear = plain.map((value, i) => value + bias.values[i % wide]!);
        const bounds = { fp32: 1e-6 * Math.sqrt(K) + 2e-7, tf32: 1e-3, bf16: 2e-3 };
        const throughGelu = { ...bounds, fp32: bounds.fp32 * 2, bf16: 3e-3 };
        const operands = { in: x.tensor, weight, bias: bias.tensor };
        const sizes = { N, C: K, O: wide };
        expectNear('out', dtype, bench.call('matmul_forward', sizes, operands).out, linear, bounds);
        const { out } = bench.call('matmul_forward.residual', sizes, { ...operands, residual: other.tensor });
        expectNear('residual', dtype, out, plus(linear, other.values), bounds);
        const ofGelu = bench.call('matmul_forward.gelu', sizes, operands);
        expectNear('pre', dtype, ofGelu.pre, linear, bounds);
        expectNear('gelu', dtype, ofGelu.out, linear.map(gelu), throughGelu);
        const back = { N, C: wide, O: K };
        const gradients = { dout: x.tensor, weight: turned };
        expectNear('din', dtype, bench.call('matmul_backward_input', back, gradients).din, plain, bounds);
        const through = plain.map((value, i) => value * geluDerivative(other.values[i]!));
        const { din } = bench.call('matmul_backward_input.gelu', back, { ...gradients, pre: other.tensor });
        expectNear('din through gelu', dtype, din, through, throughGelu);
      });

      // More tiles of the weight than a GPU has SMs, and not a multiple of them: some are summed in parts, others whole.
      it.skipIf(isCpu)('matmul backward of a large weight (CUDA only)', () => {
        using bench = new TensorBench(device());
        const [N, C, O] = [1000, 1032, 4360];
        const input = inputsOf(bench, 11);
        const [x, dout] = [input('in', [N, C]), input('dout', [N, O])];
        const [before, oldBias] = [input('dweight', [O, C], 1, device().gradientType), input('dbias', [O], 1, 'fp32')];
        const op = { dweight: before.tensor, dbias: oldBias.tensor, dout: dout.tensor, in: x.tensor };
        const db = columnSums(dout.values, O);
        // Every 61st row of the weight, which is in each of its tiles.
        const rows = Array.from({ length: Math.ceil(O / 61) }, (_, i) => i * 61);
        const picked = Float64Array.from({ length: N * rows.length }, (_, i) => {
          return dout.values[Math.floor(i / rows.length) * O + rows[i % rows.length]!]!;
        });
        const dw = product(picked, x.values, { N: rows.length, K: N, O: C }, 'tn');
        const rowsOf = (values: ArrayLike<number>) =>
          Float64Array.from({ length: rows.length * C }, (_, i) => values[rows[Math.floor(i / C)]! * C + (i % C)]!);
        const bounds = { fp32: 1e-6 * Math.sqrt(N) + 2e-7, tf32: 1e-3, bf16: 2e-3 };
        const expectRows = (name: string, wanted: ArrayLike<number>) => {
          const error = relativeError(rowsOf(floats(before.tensor)), wanted);
          expect(error <= bounds[dtype], `${name}: relative error ${error}`).toBe(true);
        };
        bench.call('matmul_backward_weight', { N, C, O, accumulate: 1 }, op);
        expectRows('dweight +=', plus(dw, rowsOf(before.values)));
        expectNear('dbias +=', dtype, oldBias.tensor, plus(db, oldBias.values), { fp32: 1e-5, bf16: 1e-5 });
        bench.call('matmul_backward_weight', { N, C, O, accumulate: 0 }, op);
        expectRows('dweight =', dw);
        expectNear('dbias =', dtype, oldBias.tensor, db, { fp32: 1e-5, bf16: 1e-5 });
      });

      if (dtype === 'tf32') return;

      // With heads enough to fill a GPU, backward may go another way than with few.
      const crowds = sizesOf('B T NH', '33x129x3 16x260x12 150x1000x2');
      it.skipIf(isCpu).each(crowds)('attention backward of many heads, $B x $NH, T $T (CUDA only)', ({ B, T, NH }) => {
        using bench = new TensorBench(device());
        const C = NH * 64;
        const input = inputsOf(bench, B + T);
        const [qkv, dout] = [input('qkv', [B, T, 3 * C]), input('dout', [B, T, C])];
        const backwardOf = (sequences: number): Float32Array => {
          const sizes = { B: sequences, T, C, NH };
          const view = (tensor: Tensor, width: number) => tensor.view([sequences, T, width]);
          const { out, lse, qkv: input } = bench.call('attention_forward', sizes, { qkv: view(qkv.tensor, 3 * C) });
          const op = { dout: view(dout.tensor, C), out, qkv: input, lse };
          const { dqkv } = bench.call('attention_backward', sizes, op);
          const first = floats(dqkv);
          bench.call('attention_backward', sizes, { dqkv, ...op });
          expect(Buffer.compare(Buffer.from(first.buffer), Buffer.from(floats(dqkv).buffer)), 'twice the same').toBe(0);
          return first;
        };
        // The last two sequences against the formula, the first two against a run of their own.
        const all = backwardOf(B);
        const last = <N extends Numbers>(values: N, width: number) => values.subarray((B - 2) * T * width) as N;
        const wanted = attention(last(qkv.values, 3 * C), last(dout.values, C), { B: 2, T, C, NH });
        const bound = dtype === 'bf16' ? 8e-3 : 5e-6;
        expect(relativeError(last(all, 3 * C), wanted.dqkv)).toBeLessThan(bound);
        const two = backwardOf(2);
        expect(relativeError(all.subarray(0, two.length), two)).toBeLessThan(bound);
      });

      it.skipIf(isCpu)('attention of more heads than a grid is high (CUDA only)', () => {
        using bench = new TensorBench(device());
        const sizes = { B: 4400, T: 2, C: 15 * 32, NH: 15 };
        const { tensor: qkv, values } = inputsOf(bench, 3)('qkv', [4400, 2, 3 * 480]);
        const { out, lse } = bench.call('attention_forward', sizes, { qkv });
        // The first position sees itself alone: it takes its own value.
        const results = floats(out);
        for (const b of [0, 2000, 4399]) {
          const own = values.subarray(b * 2 * 1440 + 960, b * 2 * 1440 + 1440);
          expect(results.subarray(b * 960, b * 960 + 480)).toEqual(own);
        }
        const { dqkv } = bench.call('attention_backward', sizes, { dout: out, out, qkv, lse });
        expect(floats(dqkv).every(Number.isFinite)).toBe(true);
      });

      it.skipIf(isCpu)('classifier: what cannot be is NaN, not a number (CUDA only)', () => {
        using bench = new TensorBench(device());
        const [N, C, Vp] = [4, 64, 128];
        const random = new Random(5);
        const x = random.normals(N * C);
        x[2 * C + 5] = NaN;
        const sizes = { N, C, V: 100, Vp, dloss: 1, softcap: 0, accumulate: 0 };
        const given = { in: x, weight: random.normals(Vp * C), targets: [1, 100, 3, 4], bias: null, dbias: null };
        const { losses } = bench.call('classifier', sizes, given);
        expect([...floats(losses)].map(Number.isNaN)).toEqual([false, true, true, false]);
      });

      it.skipIf(isCpu)('a token or target that does not exist gives NaN (CUDA only: the CPU refuses it)', () => {
        using bench = new TensorBench(device());
        const tables = { wte: new Float32Array(80), wpe: new Float32Array(32) };
        const sizes = { B: 1, T: 4, S: 4, C: 8, V: 10 };
        const rows = floats(bench.call('embedding_forward', sizes, { ...tables, tokens: [3, -1, 99, 7] }).out);
        expect(Array.from({ length: 4 }, (_, row) => Number.isNaN(rows[row * 8]))).toEqual([false, true, true, false]);
        const logits = { logits: new Float32Array(64), targets: [3, -2, 99, -1] };
        const { losses } = bench.call('cross_entropy', { N: 4, V: 10, Vp: 16, dloss: 1 }, logits);
        expect([...floats(losses)].map(Number.isNaN)).toEqual([false, true, true, false]);
      });
    },
    { dtypes: [only] },
  );
