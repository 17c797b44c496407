// The same inputs give the same bits, again and again, where many blocks share a sum.
import { expect, it } from 'vitest';
import { linearBackwardInput, linearForward } from '../../src/model/linear.ts';
import type { HostArray } from '../../src/native/element-types.ts';
import type { LibraryKind } from '../../src/native/find-library.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { drawScales } from '../../src/ops/cases/fp8.ts';
import {
  attentionBackward,
  attentionForward,
  attentionScratch,
  classifier,
  classifierScratch,
  embeddingBackward,
  embeddingScratch,
  fp8MatmulBackwardWeight,
  fp8MatmulScratch,
  fp8QuantizeWeight,
  fp8QuantizeWeightScratch,
  fp8Transpose,
  matmulBackwardWeight,
  matmulScratch,
  newtonSchulz,
  newtonSchulzScratch,
  normBackward,
  normScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { emptyCopy } from '../support/fp8.ts';
import { TensorBench } from '../support/tensors.ts';

const bytes = ({ buffer }: HostArray) => Buffer.from(buffer as ArrayBuffer);

const repeatedBy =
  (kind: LibraryKind) =>
  (bench: TensorBench, results: readonly Tensor[], run: () => void): void => {
    const repeats = kind === 'cpu' ? 5 : 300;
    run();
    const [first, again] = [1, 2].map(() => results.map((result) => result.read())) as [HostArray[], HostArray[]];
    for (let repeat = 1; repeat < repeats; repeat++) {
      run();
      const isSame = results.map((result, index) => bytes(result.readInto(again[index]!)).equals(bytes(first[index]!)));
      expect(isSame, `run ${repeat + 1}`).not.toContain(false);
    }
    bench.checkGuards();
  };

describeBackends(
  'determinism',
  (device, kind) => {
    const expectSameBits = repeatedBy(kind);

    it('attention backward', () => {
      using bench = new TensorBench(device());
      const sizes = { B: 2, T: 300, C: 128, NH: 2 };
      device().reserveWorkspace(attentionScratch(device(), sizes));
      const random = new Random(1);
      const qkv = bench.tensor('qkv', [2, 300, 384], random.normals(2 * 300 * 384));
      const dout = bench.tensor('dout', [2, 300, 128], random.normals(2 * 300 * 128));
      const [out, lse] = [bench.tensor('out', [2, 300, 128]), bench.floats('lse', [2, 2, 300])];
      const dqkv = bench.tensor('dqkv', [2, 300, 384]);
      attentionForward(device(), { out, lse, qkv });
      expectSameBits(bench, [dqkv], () => attentionBackward(device(), { dqkv, dout, out, qkv, lse }));
    });

    it('matmul backward of weights, k split over blocks', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [3000, 136, 200];
      device().reserveWorkspace(matmulScratch(device(), { N, C, O, gradients: true }));
      const random = new Random(2);
      const dout = bench.tensor('dout', [N, O], random.normals(N * O));
      const input = bench.tensor('in', [N, C], random.normals(N * C));
      const dweight = bench.tensor('dweight', [O, C], undefined, device().gradientType);
      const dbias = bench.floats('dbias', [O]);
      expectSameBits(bench, [dweight, dbias], () =>
        matmulBackwardWeight(device(), { dweight, dbias, dout, in: input, accumulate: false }),
      );
    });

    it('matmul of a long k, in any width of tiles', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [600, 4096, 440];
      device().reserveWorkspace(
        Math.max(
          matmulScratch(device(), { N, C, O, gradients: true }),
          matmulScratch(device(), { N, C: O, O: C, gradients: true }),
        ),
      );
      const random = new Random(5);
      const drawn = (name: string, ...shape: [number, number]) =>
        bench.tensor(name, shape, random.normals(shape[0] * shape[1]));
      const [wide, residual] = [drawn('wide', N, C), drawn('residual', N, O)];
      const [weight, turned] = [drawn('weight', O, C), drawn('turned', C, O)];
      const [out, dinput] = [bench.tensor('out', [N, O]), bench.tensor('dinput', [N, O])];
      expectSameBits(bench, [out, dinput], () => {
        linearForward(device(), { out: { plain: out }, in: { plain: wide }, weight, bias: null, residual });
        linearBackwardInput(device(), { din: { plain: dinput }, dout: { plain: wide }, weight: turned });
      });
    });

    // On a GPU more tiles than it computes at a time.
    it('newton-schulz, of a batch and of each of its matrices', () => {
      using bench = new TensorBench(device());
      const [M, R, K] = kind === 'cpu' ? [2, 40, 72] : [30, 264, 328];
      device().reserveWorkspace(newtonSchulzScratch(device(), { M, R, K }));
      const input = bench.tensor('in', [M, R, K], new Random(6).normals(M * R * K, 0.03));
      const out = bench.tensor('out', [M, R, K]);
      const step = { a: 3.4445, b: -4.775, c: 2.0315 };
      expectSameBits(bench, [out], () => newtonSchulz(device(), { out, in: input, ...step }));
      const bits = () => bytes(out.read());
      const together = bits();
      for (let matrix = 0; matrix < M; matrix++) {
        const own = (tensor: Tensor) => tensor.view([1, R, K], matrix * R * K);
        newtonSchulz(device(), { out: own(out), in: own(input), ...step });
      }
      expect(bits().equals(together)).toBe(true);
    });

    it('layernorm backward', () => {
      using bench = new TensorBench(device());
      const [N, C] = [5000, 96];
      device().reserveWorkspace(normScratch(device(), { N, C }));
      const random = new Random(3);
      const tensors = Object.fromEntries(
        (['dout', 'in'] as const).map((name) => [name, bench.tensor(name, [N, C], random.normals(N * C))]),
      ) as Record<'dout' | 'in', ReturnType<TensorBench['tensor']>>;
      const weight = bench.tensor('weight', [C], random.normals(C));
      const mean = bench.floats('mean', [N], new Float32Array(N));
      const rstd = bench.floats('rstd', [N], new Float32Array(N).fill(1));
      const dinput = bench.tensor('din', [N, C]);
      const [dweight, dbias] = [bench.floats('dweight', [C]), bench.floats('dbias', [C])];
      const notStored = { values: null, scale: null, norm: null, dresidual: null };
      const op = { ...tensors, ...notStored, weight, mean, rstd, din: dinput, dweight, dbias, accumulate: false };
      expectSameBits(bench, [dinput, dweight, dbias], () => normBackward(device(), op));
    });

    it('embedding backward', () => {
      using bench = new TensorBench(device());
      const [B, T, C, V] = [4, 1000, 40, 300];
      device().reserveWorkspace(embeddingScratch(device(), { B, T, C, V }));
      const random = new Random(4);
      const tokens = bench.tensor('tokens', [B, T], random.integers(B * T, 40), 'int32');
      const dout = bench.tensor('dout', [B, T, C], random.normals(B * T * C));
      const before = random.normals(V * C);
      const dwte = bench.tensor('dwte', [V, C], before, device().gradientType);
      const dwpe = bench.tensor('dwpe', [T, C], undefined, device().gradientType);
      const start = dwte.read();
      expectSameBits(bench, [dwte, dwpe], () => {
        dwte.write(start);
        embeddingBackward(device(), { dwte, dwpe, dout, tokens, V: V, accumulate: false });
      });
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

describeBackends(
  'determinism of FP8',
  (device, kind) => {
    const expectSameBits = repeatedBy(kind);

    it('quantize weight', () => {
      using bench = new TensorBench(device());
      const [C, O] = [768, 2320];
      device().reserveWorkspace(fp8QuantizeWeightScratch(device(), { C, O }));
      const random = new Random(7);
      const weight = bench.tensor('weight', [O, C], random.normals(O * C, 0.02));
      const bias = bench.tensor('bias', [O], random.normals(O));
      const values = bench.tensor('values', [O, C], undefined, 'fp8');
      const transposed = bench.tensor('transposed', [C, O], undefined, 'fp8');
      const factors = bench.floats('factors', [4]);
      expectSameBits(bench, [values, transposed, factors], () =>
        fp8QuantizeWeight(device(), { values, transposed, factors, weight, bias }),
      );
    });

    it('backward of norms', () => {
      using bench = new TensorBench(device());
      const [N, C] = [5000, 96];
      device().reserveWorkspace(normScratch(device(), { N, C }));
      const random = new Random(8);
      const [dout, input] = [1, 2].map(() => bench.tensor('rows', [N, C], random.normals(N * C))) as [Tensor, Tensor];
      const weight = bench.tensor('weight', [C], random.normals(C));
      const mean = bench.floats('mean', [N], new Float32Array(N));
      const rstd = bench.floats('rstd', [N], new Float32Array(N).fill(1));
      const [dinput, values] = [bench.tensor('din', [N, C]), bench.tensor('values', [N, C], undefined, 'fp8')];
      const [scale, norm] = [bench.floats('scale', [N]), bench.floats('norm', [N])];
      const [dweight, dbias] = [bench.floats('dw', [C]), bench.floats('db', [C])];
      const outputs = { din: dinput, values, scale, norm, dweight };
      const op = { ...outputs, dout, dresidual: null, in: input, weight, rstd, accumulate: false };
      expectSameBits(bench, [...Object.values(outputs), dbias], () => normBackward(device(), { ...op, dbias, mean }));
      expectSameBits(bench, Object.values(outputs), () => normBackward(device(), { ...op, dbias: null, mean: null }));
    });

    it('columnwise copies and their products, k split over blocks', () => {
      using bench = new TensorBench(device());
      const [N, C, O] = [3000, 144, 208];
      device().reserveWorkspace(fp8MatmulScratch(device(), { N, C, O, gradients: true }));
      const random = new Random(10);
      const rows = (width: number) => ({
        values: bench.tensor('values', [N, width], random.normals(N * width, 100), 'fp8'),
        scale: bench.floats('scale', [N], drawScales(N, random)),
        norm: bench.floats('norm', [N], random.normals(N).map(Math.abs)),
      });
      const [ofIn, ofDout, inCopy, doutCopy] = [rows(C), rows(O), emptyCopy(bench, N, C), emptyCopy(bench, N, O)];
      expectSameBits(bench, [...Object.values(inCopy), ...Object.values(doutCopy)], () => {
        fp8Transpose(device(), { ...inCopy, ...ofIn });
        fp8Transpose(device(), { ...doutCopy, ...ofDout });
      });
      const sums = {
        dweight: bench.tensor('dweight', [O, C], undefined, device().gradientType),
        dbias: bench.floats('db', [O]),
      };
      const operands = {
        ...{ dout: doutCopy.columnwise, doutScale: doutCopy.columnwiseScale },
        ...{ in: inCopy.columnwise, inScale: inCopy.columnwiseScale, N },
      };
      expectSameBits(bench, Object.values(sums), () =>
        fp8MatmulBackwardWeight(device(), { ...sums, ...operands, accumulate: false }),
      );
    });

    it('classifier', () => {
      using bench = new TensorBench(device());
      const [N, C, V, Vp] = kind === 'cpu' ? [65, 64, 300, 304] : [1100, 768, 5000, 5008];
      device().reserveWorkspace(classifierScratch(device(), { N, C, Vp, gradients: true, fp8: true }));
      const random = new Random(9);
      const drawn = (name: string, rows: number, scale: number, type?: 'fp8') =>
        bench.tensor(name, [rows, C], random.normals(rows * C, scale), type);
      const outputs = {
        losses: bench.floats('losses', [N]),
        din: bench.tensor('din', [N, C]),
        dweight: bench.tensor('dweight', [Vp, C], undefined, device().gradientType),
        dbias: bench.floats('dbias', [Vp]),
      };
      const op = {
        ...{ ...outputs, logits: bench.tensor('logits', [N, Vp]) },
        ...{ in: drawn('in', N, 1), inValues: drawn('inValues', N, 100, 'fp8') },
        inScale: bench.floats('inScale', [N], drawScales(N, random)),
        ...{ weight: drawn('weight', Vp, 0.1), weightValues: drawn('weightValues', Vp, 100, 'fp8') },
        weightTransposed: bench.tensor('weightTransposed', [C, Vp], random.normals(C * Vp, 100), 'fp8'),
        step: null,
        factors: bench.floats('factors', [4], [2 ** -10, 0, 0, 0]),
        bias: bench.tensor('bias', [Vp], random.normals(Vp)),
        targets: bench.tensor('targets', [N], random.integers(N, V), 'int32'),
        ...{ V, dloss: 1 / N, softcap: 0, accumulate: false },
      };
      expectSameBits(bench, Object.values(outputs), () => classifier(device(), op));
    });
  },
  { dtypes: ['fp8'] },
);
