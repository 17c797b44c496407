// The plain ops of which a fused op consists. If kernels of a user compute one of them, the fused op is split
// (kernels/use-cards.ts). The fused op's formula consists of the plain ops' formulas (cases/op-case.ts).
import type { OpVariant } from './contract.ts';
import { variantNamed } from './variants.ts';

/** A plain op, and the names that its arguments have in the fused op where they differ. */
export type PlainOp = readonly [plain: OpVariant, renamed: Readonly<Record<string, string>>];

const rows: Readonly<Record<string, readonly (readonly [plain: string, renamed: Readonly<Record<string, string>>])[]>> =
  {
    'matmul_forward.gelu': [
      ['matmul_forward', { out: 'pre' }],
      ['gelu_forward', { in: 'pre' }],
    ],
    'matmul_forward.residual': [
      ['matmul_forward', {}],
      ['residual_forward', { a: 'out', b: 'residual' }],
    ],
    'matmul_backward_input.gelu': [
      ['matmul_backward_input', {}],
      ['gelu_backward', { dout: 'din', in: 'pre' }],
    ],
    // For a classifier without a softcap: no plain op computes a softcap's backward.
    classifier: [
      ['matmul_forward', { out: 'logits' }],
      ['cross_entropy', { dlogits: 'logits' }],
      ['matmul_backward_input', { dout: 'logits' }],
      ['matmul_backward_weight', { dout: 'logits' }],
    ],
  };

/** The plain ops of each fused op, in order. */
export const plainOps: ReadonlyMap<OpVariant, readonly PlainOp[]> = new Map(
  Object.entries(rows).map(([fused, parts]) => [
    variantNamed(fused),
    parts.map(([plain, renamed]): PlainOp => [variantNamed(plain), renamed]),
  ]),
);
