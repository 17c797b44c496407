// Ops against their formulas at sizes that their cases lack, within closer bounds: tile edges, long sums, heads of every size.
import { describe, it } from 'vitest';
import { sizesOf } from '../../src/ops/cases/op-case.ts';
import { describeBackends } from '../support/backends.ts';
import { expectFormula } from '../support/tensors.ts';

interface Rows {
  readonly ops: readonly string[];
  readonly sizes: readonly Readonly<Record<string, number>>[];
  /** Bounds of the norm of the errors, and how many times as large the worst error may be; without: those of the cases. */
  readonly fp32?: number;
  readonly bf16?: number;
  readonly worst?: number;
}

const rows: readonly Rows[] = [
  {
    ops: ['matmul_forward', 'matmul_backward_input', 'matmul_backward_weight'],
    // Ones, primes, just under and over the tile edges (6, 14, 16, 32), and a K that spans several cache blocks.
    sizes: sizesOf('N C O', '1x1x1 3x5x7 13x24x37 31x33x65 64x64x64 67x129x191 5x1031x17 257x48x96'),
    // A sum of C products in fp32 is off by about sqrt(C) half-ulps: 2e-6 at C = 1031.
    ...{ fp32: 5e-6, worst: 1 },
  },
  {
    ops: ['attention_forward'],
    sizes: sizesOf('B T C NH', '1x1x3x1 3x2x6x6 1x127x64x1 1x129x80x1 2x31x192x2 1x200x128x1'),
  },
  {
    // Many positions at once and a single one. Sums in fp32 and one rounding; in bf16 also that of the probabilities.
    ops: ['attention_cached_forward'],
    sizes: [
      ...sizesOf('B T S NH C', '2x70x70x3x192 1x700x1024x2x128 3x19x24x2x32 2x33x40x2x74 1x40x41x1x256 1x1x1x1x64'),
      ...sizesOf('B T S NH C', '2x300x1024x3x192', { window: 128 }),
    ].flatMap((size) => [...new Set([size.T, Math.ceil(size.T / 2), 1])].map((T) => ({ window: 0, ...size, T }))),
    ...{ fp32: 2e-6, bf16: 6e-3 },
  },
  {
    // One row, for which there may be a special kernel, several, sizes that no vector takes, and more than a warp holds (C 3072).
    // In bf16 results are rounded.
    ops: ['norm_matmul_forward', 'norm_matmul_forward.gelu'],
    sizes: sizesOf('N C O', '1x768x2304 1x1600x200 1x64x9 1x37x24 1x3072x40 5x768x72 40x80x64'),
    ...{ fp32: 2e-6, bf16: 4e-3 },
  },
];

describeBackends(
  'at more sizes',
  (device, kind, dtype) => {
    for (const { ops, sizes, worst = 4, ...limits } of rows) {
      if (dtype === 'bf16' && !limits.bf16) continue;
      // In bf16 the CPU library rounds a single normalised row, too, which the bound does not expect; every-op-bf16 tests it.
      if (dtype === 'bf16' && kind === 'cpu' && ops[0]!.startsWith('norm_matmul')) continue;
      const limit = limits[dtype];
      describe.each(ops)('%s', (op) => {
        it.each(sizes)('%j', (size) => expectFormula(device(), op, size, ...(limit ? [limit, worst * limit] : [])));
      });
    }
  },
  { dtypes: ['fp32', 'bf16'] },
);
