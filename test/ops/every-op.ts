// Every op in every library and dtype against its formula in double, computed from the inputs as the device holds them, at
// sizes with ragged edges. The measure is the relative Frobenius error, in which one wrong element among many would hide, so
// that the worst element is held as well. A result stored in bf16 is off by about 1.7e-3 from
// its one rounding; bounds over 2e-3 say what else is rounded on the way.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/buffer.ts';
import type { Dtype } from '../../src/native/device.ts';
import {
  adamw,
  attentionBackward,
  attentionForward,
  attentionScratch,
  classifier,
  classifierScratch,
  crossEntropy,
  embeddingBackward,
  embeddingForward,
  embeddingScratch,
  geluBackward,
  geluForward,
  globalNorm,
  globalNormScratch,
  layernormBackward,
  layernormForward,
  layernormScratch,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulResidualForward,
  matmulScratch,
  residualForward,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import * as formulas from '../support/formulas.ts';
import { floats, held, Random, relativeError, TensorBench, toBf16, worstError } from '../support/tensors.ts';

/** The bound for a dtype; tf32's is fp32's where it is not given: only matmuls differ. */
type Bounds = { fp32: number; tf32?: number; bf16: number };

function expectNear(name: string, dtype: Dtype, actual: Tensor, wanted: ArrayLike<number>, bounds: Bounds): void {
  // The mean square of a few roundings scatters: by a third for 64 elements, where the largest count most.
  const scatter = dtype === 'bf16' ? 1 + 4 / Math.sqrt(wanted.length) : 1;
  const bound = (dtype === 'tf32' ? (bounds.tf32 ?? bounds.fp32) : bounds[dtype]) * scatter;
  const values = floats(actual);
  const error = relativeError(values, wanted);
  // NaN must not slip through a comparison.
  expect(error <= bound && values.length === wanted.length, `${name}: relative error ${error}, bound ${bound}`).toBe(
    true,
  );
  // Against the largest element: a rounding is 2^-8 of an element at most, 2.3 times its mean; twice that for two in a row.
  const worst = worstError(values, wanted);
  expect(worst <= 5 * bound, `${name}: worst element ${worst}, bound ${5 * bound}`).toBe(true);
}

const norm = (values: ArrayLike<number>) => Math.sqrt(Float64Array.from(values).reduce((sum, x) => sum + x * x, 0));
const plus = (a: ArrayLike<number>, b: ArrayLike<number>) => Float64Array.from(a, (value, index) => value + b[index]!);

/** Random inputs that are already what the device will hold. */
function inputsOf(bench: TensorBench, seed: number) {
  const random = new Random(seed);
  return (name: string, shape: readonly number[], scale = 1, type = bench.device.elementType) => {
    const count = shape.reduce((total, size) => total * size, 1);
    const values = held(type, random.normals(count, scale));
    return { tensor: bench.tensor(name, shape, values, type), values };
  };
}

/** The suite for one dtype; fp32 on either library, the others on CUDA. */
export const describeEveryOp = (only: Dtype): void =>
  describeBackends(
    'every op',
    (device, kind, dtype) => {
      const isCpu = kind === 'cpu';

      // Aligned and not, one tile and several, fewer and more than a tile's steps of k, sums over many rows.
      const products = [
        { N: 1, C: 64, O: 72 },
        { N: 7, C: 37, O: 24 },
        { N: 64, C: 80, O: 320 },
        { N: 129, C: 72, O: 200 },
        { N: 257, C: 384, O: 136 },
        ...(isCpu
          ? []
          : [
              { N: 1000, C: 768, O: 776 },
              { N: 4097, C: 128, O: 64 },
              { N: 2, C: 64, O: 50304 },
            ]),
      ];
      it.each(products)('matmul, N $N C $C O $O', ({ N, C, O }) => {
        using bench = new TensorBench(device());
        device().reserveWorkspace(matmulScratch(device(), { N, C, O, gradients: true }));
        const input = inputsOf(bench, N + C + O);
        const [x, w, b] = [input('in', [N, C]), input('weight', [O, C], 0.2), input('bias', [O])];
        const [dout, residual, pre] = [input('dout', [N, O]), input('residual', [N, O]), input('pre', [N, C])];
        // fp32 sums of K terms; tf32 cuts inputs to 10 bits of mantissa.
        const bounds = { fp32: 1e-6 * Math.sqrt(Math.max(C, O, N)) + 2e-7, tf32: 1e-3, bf16: 2e-3 };

        const linear = formulas.product(x.values, w.values, { N, K: C, O }, 'nt').map((v, i) => v + b.values[i % O]!);
        const out = bench.tensor('out', [N, O]);
        matmulForward(device(), { out, in: x.tensor, weight: w.tensor, bias: b.tensor });
        expectNear('out', dtype, out, linear, bounds);

        const [gelu, kept] = [bench.tensor('gelu', [N, O]), bench.tensor('pre', [N, O])];
        matmulGeluForward(device(), { out: gelu, pre: kept, in: x.tensor, weight: w.tensor, bias: b.tensor });
        expectNear('pre', dtype, kept, linear, bounds);
        // tanh in one instruction: 2^-11.
        expectNear('gelu', dtype, gelu, linear.map(formulas.gelu), { ...bounds, fp32: bounds.fp32 * 2, bf16: 3e-3 });

        const added = bench.tensor('out', [N, O]);
        matmulResidualForward(device(), {
          out: added,
          in: x.tensor,
          weight: w.tensor,
          bias: b.tensor,
          residual: residual.tensor,
        });
        expectNear('residual', dtype, added, plus(linear, residual.values), bounds);

        const dx = formulas.product(dout.values, w.values, { N, K: O, O: C }, 'nn');
        const dinput = bench.tensor('din', [N, C]);
        matmulBackwardInput(device(), { din: dinput, dout: dout.tensor, weight: w.tensor });
        expectNear('din', dtype, dinput, dx, bounds);
        const through = dx.map((value, index) => value * formulas.geluDerivative(pre.values[index]!));
        const dgelu = bench.tensor('din', [N, C]);
        matmulGeluBackwardInput(device(), {
          din: dgelu,
          dout: dout.tensor,
          weight: w.tensor,
          pre: pre.tensor,
        });
        expectNear('din through gelu', dtype, dgelu, through, { ...bounds, fp32: bounds.fp32 * 2, bf16: 3e-3 });

        const dw = formulas.product(dout.values, x.values, { N: O, K: N, O: C }, 'tn');
        const db = new Float64Array(O);
        dout.values.forEach((value, index) => {
          db[index % O]! += value;
        });
        const before = input('dweight', [O, C], 1, device().gradientType);
        const beforeBias = input('dbias', [O], 1, 'fp32');
        const op = { dweight: before.tensor, dbias: beforeBias.tensor, dout: dout.tensor, in: x.tensor };
        matmulBackwardWeight(device(), { ...op, accumulate: true });
        expectNear('dweight +=', dtype, before.tensor, plus(dw, before.values), bounds);
        expectNear('dbias +=', dtype, beforeBias.tensor, plus(db, beforeBias.values), { fp32: 1e-5, bf16: 1e-5 });
        matmulBackwardWeight(device(), { ...op, accumulate: false });
        expectNear('dweight =', dtype, before.tensor, dw, bounds);
        expectNear('dbias =', dtype, beforeBias.tensor, db, { fp32: 1e-5, bf16: 1e-5 });
        bench.checkGuards();
      });

      // Several tiles for each SM one after the other, all of their elements: of a short k, and of a long one on whose columns
      // only Hopper's narrow tiles come out even. Columns of the weight repeat, in a period that no tile has, so that the
      // formula is quick.
      const ofManyTiles = [
        { N: 4096, K: 768, wide: 3072 },
        ...(dtype === 'bf16' ? [{ N: 2500, K: 4160, wide: 1592 }] : []),
      ];
      it.skipIf(isCpu).each(ofManyTiles)('matmul of many tiles, K $K (CUDA only)', ({ N, K, wide }) => {
        using bench = new TensorBench(device());
        const period = 56;
        device().reserveWorkspace(
          Math.max(
            matmulScratch(device(), { N, C: K, O: wide, gradients: true }),
            matmulScratch(device(), { N, C: wide, O: K, gradients: true }),
          ),
        );
        const input = inputsOf(bench, 12);
        const [x, other, bias] = [input('in', [N, K]), input('other', [N, wide]), input('bias', [wide])];
        const type = device().elementType;
        const base = held(type, new Random(13).normals(period * K, 0.2));
        const lines = Float32Array.from(
          { length: wide * K },
          (_, i) => base[(Math.floor(i / K) % period) * K + (i % K)]!,
        );
        const columns = Float32Array.from(
          { length: K * wide },
          (_, i) => lines[(i % wide) * K + Math.floor(i / wide)]!,
        );
        const [weight, turned] = [bench.tensor('w', [wide, K], lines), bench.tensor('w', [K, wide], columns)];
        const narrow = formulas.product(x.values, base, { N, K, O: period }, 'nt');
        const plain = Float64Array.from(
          { length: N * wide },
          (_, i) => narrow[Math.floor(i / wide) * period + ((i % wide) % period)]!,
        );
        const linear = plain.map((value, i) => value + bias.values[i % wide]!);
        const bounds = { fp32: 1e-6 * Math.sqrt(K) + 2e-7, tf32: 1e-3, bf16: 2e-3 };
        const throughGelu = { ...bounds, fp32: bounds.fp32 * 2, bf16: 3e-3 };
        const operands = { in: x.tensor, weight, bias: bias.tensor };
        const [out, pre] = [bench.tensor('out', [N, wide]), bench.tensor('pre', [N, wide])];
        matmulForward(device(), { out, ...operands });
        expectNear('out', dtype, out, linear, bounds);
        matmulResidualForward(device(), { out, residual: other.tensor, ...operands });
        expectNear('residual', dtype, out, plus(linear, other.values), bounds);
        matmulGeluForward(device(), { out, pre, ...operands });
        expectNear('pre', dtype, pre, linear, bounds);
        expectNear('gelu', dtype, out, linear.map(formulas.gelu), throughGelu);
        matmulBackwardInput(device(), { din: out, dout: x.tensor, weight: turned });
        expectNear('din', dtype, out, plain, bounds);
        const through = plain.map((value, i) => value * formulas.geluDerivative(other.values[i]!));
        matmulGeluBackwardInput(device(), { din: out, dout: x.tensor, weight: turned, pre: other.tensor });
        expectNear('din through gelu', dtype, out, through, throughGelu);
        bench.checkGuards();
      });

      // More tiles of the weight than a GPU has SMs, and not a multiple of them: some are summed in parts, others whole.
      it.skipIf(isCpu)('matmul backward of a large weight (CUDA only)', () => {
        using bench = new TensorBench(device());
        const [N, C, O] = [1000, 1032, 4360];
        device().reserveWorkspace(matmulScratch(device(), { N, C, O, gradients: true }));
        const input = inputsOf(bench, 11);
        const [x, dout] = [input('in', [N, C]), input('dout', [N, O])];
        const [before, beforeBias] = [
          input('dweight', [O, C], 1, device().gradientType),
          input('dbias', [O], 1, 'fp32'),
        ];
        const op = { dweight: before.tensor, dbias: beforeBias.tensor, dout: dout.tensor, in: x.tensor };
        const db = new Float64Array(O);
        dout.values.forEach((value, index) => {
          db[index % O]! += value;
        });
        // Every 61st row of the weight, which is in each of its tiles.
        const rows = Array.from({ length: Math.ceil(O / 61) }, (_, i) => i * 61);
        const picked = Float64Array.from({ length: N * rows.length }, (_, i) => {
          return dout.values[Math.floor(i / rows.length) * O + rows[i % rows.length]!]!;
        });
        const dw = formulas.product(picked, x.values, { N: rows.length, K: N, O: C }, 'tn');
        const rowsOf = (values: ArrayLike<number>) =>
          Float64Array.from({ length: rows.length * C }, (_, i) => values[rows[Math.floor(i / C)]! * C + (i % C)]!);
        const bounds = { fp32: 1e-6 * Math.sqrt(N) + 2e-7, tf32: 1e-3, bf16: 2e-3 };
        const expectRows = (name: string, wanted: ArrayLike<number>) => {
          const error = relativeError(rowsOf(floats(before.tensor)), wanted);
          expect(error <= bounds[dtype], `${name}: relative error ${error}`).toBe(true);
        };
        matmulBackwardWeight(device(), { ...op, accumulate: true });
        expectRows('dweight +=', plus(dw, rowsOf(before.values)));
        expectNear('dbias +=', dtype, beforeBias.tensor, plus(db, beforeBias.values), { fp32: 1e-5, bf16: 1e-5 });
        matmulBackwardWeight(device(), { ...op, accumulate: false });
        expectRows('dweight =', dw);
        expectNear('dbias =', dtype, beforeBias.tensor, db, { fp32: 1e-5, bf16: 1e-5 });
        bench.checkGuards();
      });

      // In tf32 only matmuls differ from fp32.
      if (dtype === 'tf32') return;

      it.each([
        { N: 7, C: 64 },
        { N: 5, C: 37 },
        { N: 130, C: 768 },
        { N: 33, C: 1600 },
        { N: 3, C: 2400 },
        { N: 3000, C: 384 },
      ])('layernorm, N $N C $C', ({ N, C }) => {
        using bench = new TensorBench(device());
        device().reserveWorkspace(layernormScratch(device(), { N, C }));
        const input = inputsOf(bench, N + C);
        const [x, w, b] = [input('in', [N, C], 3), input('weight', [C]), input('bias', [C])];
        const [dout, dresidual] = [input('dout', [N, C]), input('dresidual', [N, C])];
        const wanted = formulas.layernorm(x.values, w.values, b.values, dout.values, { N, C });
        const out = bench.tensor('out', [N, C]);
        const [mean, rstd] = [bench.floats('mean', [N]), bench.floats('rstd', [N])];
        layernormForward(device(), { out, mean, rstd, in: x.tensor, weight: w.tensor, bias: b.tensor });
        expectNear('out', dtype, out, wanted.out, { fp32: 1e-6, bf16: 2e-3 });
        expectNear('mean', dtype, mean, wanted.mean, { fp32: 1e-5, bf16: 1e-5 });
        expectNear('rstd', dtype, rstd, wanted.rstd, { fp32: 1e-5, bf16: 1e-5 });
        const beside = { in: x.tensor, weight: w.tensor, mean, rstd, dout: dout.tensor };
        const dinput = bench.tensor('din', [N, C]);
        const [dweight, dbias] = [bench.floats('dweight', [C]), bench.floats('dbias', [C])];
        layernormBackward(device(), { ...beside, din: dinput, dweight, dbias, dresidual: null, accumulate: false });
        expectNear('din', dtype, dinput, wanted.din, { fp32: 2e-6, bf16: 2e-3 });
        expectNear('dweight', dtype, dweight, wanted.dweight, { fp32: 1e-5, bf16: 1e-5 });
        expectNear('dbias', dtype, dbias, wanted.dbias, { fp32: 1e-5, bf16: 1e-5 });
        const inPlace = dresidual.tensor;
        layernormBackward(device(), {
          ...beside,
          din: inPlace,
          dweight,
          dbias,
          dresidual: inPlace,
          accumulate: true,
        });
        expectNear('din in place', dtype, inPlace, plus(wanted.din, dresidual.values), { fp32: 2e-6, bf16: 2e-3 });
        expectNear(
          'dweight +=',
          dtype,
          dweight,
          wanted.dweight.map((value) => 2 * value),
          { fp32: 1e-5, bf16: 1e-5 },
        );
        bench.checkGuards();
      });

      const lengths = isCpu ? [1, 7, 129] : [1, 7, 64, 127, 129, 1000, 1024];
      const heads = isCpu ? [64] : dtype === 'bf16' ? [20, 32, 64, 80, 96, 128] : [20, 64, 128];
      it.each(lengths.flatMap((T) => heads.map((HS) => ({ T, HS }))))('attention, T $T, head size $HS', ({ T, HS }) => {
        using bench = new TensorBench(device());
        const sizes = { B: T < 200 ? 2 : 1, T, NH: T < 200 ? 3 : 1, C: HS * (T < 200 ? 3 : 1) };
        const { B, C, NH } = sizes;
        device().reserveWorkspace(attentionScratch(device(), sizes));
        const input = inputsOf(bench, T + HS);
        const [qkv, dout] = [input('qkv', [B, T, 3 * C]), input('dout', [B, T, C])];
        const wanted = formulas.attention(qkv.values, dout.values, sizes);
        const [out, lse] = [bench.tensor('out', [B, T, C]), bench.floats('lse', [B, NH, T])];
        attentionForward(device(), { out, lse, qkv: qkv.tensor });
        // P is rounded to bf16 before it meets v.
        expectNear('out', dtype, out, wanted.out, { fp32: 2e-6, bf16: 4e-3 });
        const lseError = floats(lse).reduce((worst, value, i) => Math.max(worst, Math.abs(value - wanted.lse[i]!)), 0);
        expect(lseError, 'lse').toBeLessThan(dtype === 'bf16' ? 1e-4 : 1e-5);
        const dqkv = bench.tensor('dqkv', [B, T, 3 * C]);
        attentionBackward(device(), { dqkv, dout: dout.tensor, out, qkv: qkv.tensor, lse });
        // P and dS are rounded, and D is made from the rounded out.
        const gradients = floats(dqkv);
        ['dq', 'dk', 'dv'].forEach((name, part) => {
          const pick = (from: ArrayLike<number>) =>
            Float64Array.from({ length: B * T * C }, (_, i) => from[Math.floor(i / C) * 3 * C + part * C + (i % C)]!);
          const [actual, exact] = [pick(gradients), pick(wanted.dqkv)];
          // With a single position nothing competes and dq and dk are zero: the measure is dv, which is of the size that
          // they cancel from.
          const scale = T === 1 ? norm(wanted.dqkv) : norm(exact);
          const error = norm(actual.map((value, i) => value - exact[i]!)) / scale;
          const bound = dtype === 'bf16' ? 8e-3 : 5e-6;
          expect(error <= bound, `${name}: ${error}, bound ${bound}`).toBe(true);
        });
        bench.checkGuards();
      });

      // With heads enough to fill a GPU, backward may go another way than with few.
      const crowds = [
        { B: 33, T: 129, NH: 3 },
        { B: 16, T: 260, NH: 12 },
        { B: 150, T: 1000, NH: 2 },
      ];
      it.skipIf(isCpu).each(crowds)('attention backward of many heads, $B x $NH, T $T (CUDA only)', ({ B, T, NH }) => {
        using bench = new TensorBench(device());
        const C = NH * 64;
        const input = inputsOf(bench, B + T);
        const [qkv, dout] = [input('qkv', [B, T, 3 * C]), input('dout', [B, T, C])];
        const backwardOf = (sequences: number): Float32Array => {
          const sizes = { B: sequences, T, C, NH };
          device().reserveWorkspace(attentionScratch(device(), sizes));
          const view = (tensor: Tensor, width: number) => tensor.view([sequences, T, width]);
          const out = bench.tensor('out', [sequences, T, C]);
          const lse = bench.floats('lse', [sequences, NH, T]);
          const dqkv = bench.tensor('dqkv', [sequences, T, 3 * C]);
          attentionForward(device(), { out, lse, qkv: view(qkv.tensor, 3 * C) });
          const op = { dout: view(dout.tensor, C), out, qkv: view(qkv.tensor, 3 * C), lse };
          attentionBackward(device(), { dqkv, ...op });
          const first = floats(dqkv);
          attentionBackward(device(), { dqkv, ...op });
          expect(Buffer.compare(Buffer.from(first.buffer), Buffer.from(floats(dqkv).buffer)), 'twice the same').toBe(0);
          return first;
        };
        // The last two sequences against the formula, the first two against a run of their own.
        const all = backwardOf(B);
        const last = <N extends formulas.Numbers>(values: N, width: number) =>
          values.subarray((B - 2) * T * width) as N;
        const wanted = formulas.attention(last(qkv.values, 3 * C), last(dout.values, C), { B: 2, T, C, NH });
        const bound = dtype === 'bf16' ? 8e-3 : 5e-6;
        expect(relativeError(last(all, 3 * C), wanted.dqkv)).toBeLessThan(bound);
        const two = backwardOf(2);
        expect(relativeError(all.subarray(0, two.length), two)).toBeLessThan(bound);
        bench.checkGuards();
      });

      it.skipIf(isCpu)('attention of more heads than a grid is high (CUDA only)', () => {
        using bench = new TensorBench(device());
        const sizes = { B: 4400, T: 2, C: 15 * 32, NH: 15 };
        device().reserveWorkspace(attentionScratch(device(), sizes));
        const { tensor: qkv, values } = inputsOf(bench, 3)('qkv', [4400, 2, 3 * 480]);
        const [out, lse] = [bench.tensor('out', [4400, 2, 480]), bench.floats('lse', [4400, 15, 2])];
        attentionForward(device(), { out, lse, qkv });
        // The first position sees itself alone: it takes its own value.
        const results = floats(out);
        for (const b of [0, 2000, 4399]) {
          const own = values.subarray(b * 2 * 1440 + 960, b * 2 * 1440 + 1440);
          expect(results.subarray(b * 960, b * 960 + 480)).toEqual(own);
        }
        const dqkv = bench.tensor('dqkv', [4400, 2, 1440]);
        attentionBackward(device(), { dqkv, dout: out, out, qkv, lse });
        expect(floats(dqkv).every(Number.isFinite)).toBe(true);
        bench.checkGuards();
      });

      it.each([1, 91, 4096, 100_003])('gelu and residual, %i elements', (count) => {
        using bench = new TensorBench(device());
        const input = inputsOf(bench, count);
        const [x, y] = [input('x', [count], 2), input('y', [count])];
        const out = bench.tensor('out', [count]);
        geluForward(device(), { out, in: x.tensor });
        expectNear('gelu', dtype, out, Float64Array.from(x.values, formulas.gelu), { fp32: 1e-6, bf16: 3e-3 });
        geluBackward(device(), { din: out, dout: y.tensor, in: x.tensor });
        const derivative = Float64Array.from(x.values, (value, i) => formulas.geluDerivative(value) * y.values[i]!);
        expectNear('gelu backward', dtype, out, derivative, { fp32: 1e-6, bf16: 3e-3 });
        residualForward(device(), { out, a: x.tensor, b: y.tensor });
        expectNear('residual', dtype, out, plus(x.values, y.values), { fp32: 1e-7, bf16: 2e-3 });
        bench.checkGuards();
      });

      it.each([
        { N: 9, V: 53, Vp: 64 },
        { N: 4, V: 50257, Vp: 50304 },
        { N: 3, V: 1001, Vp: 1001 },
      ])('cross-entropy, V $V of $Vp', ({ N, V, Vp }) => {
        using bench = new TensorBench(device());
        const logits = inputsOf(bench, V)('logits', [N, Vp], 4);
        const targets = new Random(N).integers(N, V);
        const wanted = formulas.crossEntropy(logits.values, targets, { V, Vp, dloss: 0.25 });
        const losses = bench.floats('losses', [N]);
        const ids = bench.tensor('targets', [N], targets, 'int32');
        const op = { losses, logits: logits.tensor, targets: ids, V: V, dloss: 0.25 };
        crossEntropy(device(), { ...op, dlogits: null });
        for (const [i, loss] of floats(losses).entries()) {
          expect(Math.abs(loss - wanted.losses[i]!), `loss ${i}`).toBeLessThan(1e-5);
        }
        const dlogits = bench.tensor('dlogits', [N, Vp]);
        crossEntropy(device(), { ...op, dlogits });
        expectNear('dlogits', dtype, dlogits, wanted.dlogits, { fp32: 1e-5, bf16: 2e-3 });
        crossEntropy(device(), { ...op, dlogits: logits.tensor });
        expect(floats(logits.tensor)).toEqual(floats(dlogits));
        bench.checkGuards();
      });

      it.each([
        { N: 5, C: 37, V: 77, Vp: 80, scale: 0.3 },
        { N: 130, C: 64, V: 1000, Vp: 1024, scale: 0.3 },
        // Losses of up to 40, and of 0: a target is one of the largest or of the smallest logits.
        { N: 300, C: 128, V: 500, Vp: 512, scale: 1 },
        ...(isCpu
          ? []
          : [
              { N: 257, C: 768, V: 5000, Vp: 5120, scale: 0.1 },
              // Several tiles for each SM one after the other.
              { N: 2048, C: 64, V: 2900, Vp: 2944, scale: 0.3 },
            ]),
      ])('classifier, N $N C $C V $V of $Vp', ({ N, C, V, Vp, scale }) => {
        using bench = new TensorBench(device());
        device().reserveWorkspace(classifierScratch(device(), { N, C, Vp, gradients: true }));
        const input = inputsOf(bench, N + V);
        const [x, w] = [input('in', [N, C]), input('weight', [Vp, C], scale)];
        const targets = new Random(N).integers(N, V);
        const dloss = 0.25;
        const logits = formulas.product(x.values, w.values, { N, K: C, O: Vp }, 'nt');
        const wanted = formulas.crossEntropy(logits, targets, { V, Vp, dloss });
        const dx = formulas.product(wanted.dlogits, w.values, { N, K: Vp, O: C }, 'nn');
        const dw = formulas.product(wanted.dlogits, x.values, { N: Vp, K: N, O: C }, 'tn');

        const before = input('dweight', [Vp, C], 1, device().gradientType);
        const [losses, dinput] = [bench.floats('losses', [N]), bench.tensor('din', [N, C])];
        const op = {
          losses,
          logits: bench.tensor('logits', [N, Vp]),
          in: x.tensor,
          weight: w.tensor,
          targets: bench.tensor('targets', [N], targets, 'int32'),
          V: V,
          dloss,
        };
        // Only the parts round logits to bf16: those of 32 to 64 by up to 0.125, and a loss is a difference of two.
        const inParts = dtype === 'bf16' && device().description.codePath === 'portable';
        const lossBound = inParts || C % 8 !== 0 ? (dtype === 'bf16' ? 0.25 : 1e-4) : 1e-4;
        const expectLosses = () => {
          for (const [i, loss] of floats(losses).entries()) {
            expect(Math.abs(loss - wanted.losses[i]!), `loss ${i}`).toBeLessThan(lossBound);
          }
        };
        classifier(device(), { ...op, din: null, dweight: null, accumulate: false });
        expectLosses();
        losses.write(new Float32Array(N));
        classifier(device(), { ...op, din: dinput, dweight: before.tensor, accumulate: true });
        expectLosses();
        // Rounded logits are off by as much as the scores are large.
        const bounds = { fp32: 1e-5, bf16: inParts || C % 8 !== 0 ? 2e-2 : 3e-3 };
        expectNear('din', dtype, dinput, dx, bounds);
        expectNear('dweight +=', dtype, before.tensor, plus(dw, before.values), bounds);
        classifier(device(), { ...op, din: dinput, dweight: before.tensor, accumulate: false });
        expectNear('dweight =', dtype, before.tensor, dw, bounds);
        bench.checkGuards();
      });

      it.skipIf(isCpu)('classifier: what cannot be is NaN, not a number (CUDA only)', () => {
        using bench = new TensorBench(device());
        const [N, C, Vp] = [4, 64, 128];
        device().reserveWorkspace(classifierScratch(device(), { N, C, Vp, gradients: true }));
        const random = new Random(5);
        const values = random.normals(N * C);
        values[2 * C + 5] = NaN;
        const losses = bench.floats('losses', [N]);
        classifier(device(), {
          losses,
          din: bench.tensor('din', [N, C]),
          dweight: bench.tensor('dweight', [Vp, C], undefined, device().gradientType),
          logits: bench.tensor('logits', [N, Vp]),
          in: bench.tensor('in', [N, C], values),
          weight: bench.tensor('weight', [Vp, C], random.normals(Vp * C)),
          targets: bench.tensor('targets', [N], Int32Array.from([1, 100, 3, 4]), 'int32'),
          V: 100,
          dloss: 1,
          accumulate: false,
        });
        expect([...floats(losses)].map(Number.isNaN)).toEqual([false, true, true, false]);
      });

      it.each([
        { B: 2, T: 9, C: 37, below: 50 },
        { B: 4, T: 1000, C: 64, below: 7 },
        { B: 3, T: 700, C: 96, below: 5000 },
        { B: 1, T: 2100, C: 32, below: 1 },
      ])('embedding, $B x $T tokens of $below kinds', ({ B, T, C, below }) => {
        using bench = new TensorBench(device());
        const V = 5000;
        device().reserveWorkspace(embeddingScratch(device(), { B, T, C, V }));
        const input = inputsOf(bench, T);
        const [wte, wpe, dout] = [input('wte', [V, C]), input('wpe', [T, C]), input('dout', [B, T, C])];
        const ids = new Random(below).integers(B * T, below);
        const tokens = bench.tensor('tokens', [B, T], ids, 'int32');
        const out = bench.tensor('out', [B, T, C]);
        embeddingForward(device(), { out, tokens, wte: wte.tensor, wpe: wpe.tensor, V: V });
        const wanted = Float64Array.from({ length: B * T * C }, (_, i) => {
          const row = Math.floor(i / C);
          return wte.values[ids[row]! * C + (i % C)]! + wpe.values[(row % T) * C + (i % C)]!;
        });
        expectNear('out', dtype, out, wanted, { fp32: 1e-7, bf16: 2e-3 });

        const [dwte, dwpe] = [
          input('dwte', [V, C], 1, device().gradientType),
          input('dwpe', [T, C], 1, device().gradientType),
        ];
        const [word, position] = [Float64Array.from(dwte.values), Float64Array.from(dwpe.values)];
        dout.values.forEach((value, i) => {
          const row = Math.floor(i / C);
          word[ids[row]! * C + (i % C)]! += value;
          position[(row % T) * C + (i % C)]! += value;
        });
        const op = { dwte: dwte.tensor, dwpe: dwpe.tensor, dout: dout.tensor, tokens, V: V };
        embeddingBackward(device(), { ...op, accumulate: true });
        expectNear('dwte', dtype, dwte.tensor, word, { fp32: 1e-6, bf16: 2e-3 });
        expectNear('dwpe', dtype, dwpe.tensor, position, { fp32: 1e-6, bf16: 2e-3 });
        bench.checkGuards();
      });

      it.skipIf(isCpu)('a token or target that does not exist gives NaN (CUDA only: the CPU refuses it)', () => {
        using bench = new TensorBench(device());
        const tokens = bench.tensor('tokens', [1, 4], [3, -1, 99, 7], 'int32');
        const [wte, wpe] = [
          bench.tensor('wte', [16, 8], new Float32Array(128)),
          bench.tensor('wpe', [4, 8], new Float32Array(32)),
        ];
        const out = bench.tensor('out', [1, 4, 8]);
        embeddingForward(device(), { out, tokens, wte, wpe, V: 10 });
        const rows = floats(out);
        expect(Array.from({ length: 4 }, (_, row) => Number.isNaN(rows[row * 8]))).toEqual([false, true, true, false]);
        const logits = bench.tensor('logits', [4, 16], new Float32Array(64));
        const [losses, dlogits] = [bench.floats('losses', [4]), bench.tensor('dlogits', [4, 16])];
        const targets = tokens.view([4]);
        crossEntropy(device(), { losses, dlogits, logits, targets, V: 10, dloss: 1 });
        expect([...floats(losses)].map(Number.isNaN)).toEqual([false, true, true, false]);
        bench.checkGuards();
      });

      it('adamw and global norm', () => {
        using bench = new TensorBench(device());
        const count = 100_003;
        device().reserveWorkspace(globalNormScratch(device(), { matrixCount: count, vectorCount: 77 }));
        const input = inputsOf(bench, 5);
        const gradient = input('gradient', [count], 1, device().gradientType);
        const vectors = input('vectors', [77], 1, 'fp32');
        const master = input('master', [count], 1, 'fp32');
        const [m, v] = [input('m', [count], 0.1, 'fp32'), input('v', [count], 0.1, 'fp32')];
        v.tensor.write(v.values.map(Math.abs));
        const weight = dtype === 'bf16' ? bench.tensor('weight', [count]) : master.tensor;
        const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
        block.set([1e-2, 0.1, 0.05, 1e9, 1e9]);
        const step = bench.floats('step', [GPT2_STEP.GPT2_STEP_SIZE], block);

        globalNorm(device(), { step, matrices: gradient.tensor, vectors: vectors.tensor, maxNorm: 1 });
        const squares = (values: Float32Array) => values.reduce((sum, value) => sum + value * value, 0);
        const norm = Math.sqrt(squares(gradient.values) + squares(vectors.values));
        const results = floats(step);
        expect(Math.abs(results[GPT2_STEP.GPT2_STEP_NORM]! / norm - 1)).toBeLessThan(1e-6);
        expect(Math.abs(results[GPT2_STEP.GPT2_STEP_CLIP]! * norm - 1)).toBeLessThan(1e-6);

        adamw(device(), {
          ...{ weight, master: master.tensor, m: m.tensor, v: v.tensor, gradient: gradient.tensor, step },
          ...{ beta1: 0.9, beta2: 0.95, eps: 1e-8, weightDecay: 0.1 },
        });
        const first = Float64Array.from(m.values, (value, i) => 0.9 * value + (0.1 * gradient.values[i]!) / norm);
        const second = Float64Array.from(
          v.values,
          (value, i) => 0.95 * Math.abs(value) + 0.05 * (gradient.values[i]! / norm) ** 2,
        );
        const updated = Float64Array.from(
          master.values,
          (value, i) => value - 1e-2 * (first[i]! / 0.1 / (Math.sqrt(second[i]! / 0.05) + 1e-8) + 0.1 * value),
        );
        expectNear('m', dtype, m.tensor, first, { fp32: 1e-6, bf16: 1e-6 });
        expectNear('v', dtype, v.tensor, second, { fp32: 1e-6, bf16: 1e-6 });
        expectNear('master', dtype, master.tensor, updated, { fp32: 1e-6, bf16: 1e-6 });
        if (dtype === 'bf16') expect(weight.read()).toEqual(toBf16(floats(master.tensor)));
        bench.checkGuards();
      });
    },
    { dtypes: [only] },
  );
