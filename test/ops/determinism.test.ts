// The same inputs give the same bits, again and again, where many blocks share a sum.
import { expect, it } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import type { Device } from '../../src/native/device.ts';
import type { LibraryKind } from '../../src/native/find-library.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { plain } from '../../src/ops/cases/op-case.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { describeBackends } from '../support/backends.ts';
import { hashOf, TensorBench } from '../support/tensors.ts';

type Row = readonly [op: string, sizes: Readonly<Record<string, number>>];

/** Runs an op's case many times, without its formula, which takes longer. */
async function expectSameBits(device: Device, kind: LibraryKind, [op, sizes]: Row): Promise<void> {
  const cases = { ...casesNamed(op), formula: () => ({}), bounds: () => ({}) };
  const wrong = await runCase(device, cases, sizes, plain, kind === 'cpu' ? 5 : 300);
  expect(wrong.map(({ name }) => name)).toEqual([]);
}

const step = { a: 3.4445, b: -4.775, c: 2.0315 };

describeBackends(
  'determinism',
  (device, kind) => {
    // On a GPU more tiles than it computes at a time.
    const [M, R, K] = kind === 'cpu' ? [2, 40, 72] : [30, 264, 328];
    it.each<Row>([
      ['attention_backward', { B: 2, T: 300, C: 128, NH: 2 }],
      // Tiles of different lengths, taken from a queue.
      ['attention_forward.masked', { B: 2, T: 1000, C: 128, NH: 2, window: 0, documents: 300 }],
      ['attention_backward.masked', { B: 2, T: 1000, C: 128, NH: 2, window: 0, documents: 300 }],
      // k split over blocks.
      ['matmul_backward_weight', { N: 3000, C: 136, O: 200 }],
      // A long k, in any width of tiles.
      ['matmul_forward.residual', { N: 600, C: 4096, O: 440 }],
      ['matmul_backward_input', { N: 600, C: 440, O: 4096 }],
      ['newton_schulz', { M, R, K, ...step }],
      ['norm_backward.layernorm', { N: 5000, C: 96, eps: 1e-5 }],
      ['embedding_backward', { B: 4, T: 1000, C: 40, V: 300, kinds: 40 }],
    ])('%s', (...row) => expectSameBits(device(), kind, row));

    it('newton-schulz of a batch is that of each of its matrices', () => {
      using bench = new TensorBench(device());
      const sizes = { M, R, K, ...step };
      const { out, in: input } = bench.call('newton_schulz', sizes, { in: new Random(6).normals(M * R * K, 0.03) });
      const together = hashOf([out]);
      for (let matrix = 0; matrix < M; matrix++) {
        const own = (tensor: Tensor) => tensor.view([1, R, K], matrix * R * K);
        bench.call('newton_schulz', { ...sizes, M: 1 }, { out: own(out), in: own(input) });
      }
      expect(hashOf([out])).toBe(together);
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

describeBackends(
  'determinism of FP8',
  (device, kind) => {
    const classified = kind === 'cpu' ? { N: 65, C: 64, V: 300, Vp: 304 } : { N: 1100, C: 768, V: 5000, Vp: 5008 };
    it.each<Row>([
      ['fp8_quantize_weight', { C: 768, O: 2320 }],
      ['norm_backward.layernorm_fp8', { N: 5000, C: 96, eps: 1e-5 }],
      ['norm_backward.rmsnorm_fp8', { N: 5000, C: 96, eps: 1e-5 }],
      ['fp8_transpose', { N: 3000, C: 208 }],
      // k split over blocks.
      ['fp8_matmul_backward_weight', { N: 3000, C: 144, O: 208 }],
      ['classifier.fp8', { ...classified, dloss: 1e-3, softcap: 0, biased: 1, weightScale: 0.1 }],
    ])('%s', (...row) => expectSameBits(device(), kind, row));
  },
  { dtypes: ['fp8'] },
);
