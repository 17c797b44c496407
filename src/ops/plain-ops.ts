// Plain ops for each fused op: a sequence with the same result. If a user's kernels compute one of the plain ops, the fused op is run
// as this sequence (kernels/use-cards.ts). Tests compute a fused op's reference in the same way (cases/op-case.ts).
import type { OpVariant } from './contract.ts';
import { variantNamed } from './variants.ts';

/** A plain op, and the fused op's names for arguments that have another name in the plain op: { out: 'logits' }. */
export type PlainOp = readonly [plain: OpVariant, renamed: Readonly<Record<string, string>>];

const plain = (name: string, renamed: PlainOp[1] = {}): PlainOp => [variantNamed(name), renamed];

/** The plain ops of each fused op, in the order in which they run. */
export const plainOps: ReadonlyMap<OpVariant, readonly PlainOp[]> = new Map(
  Object.entries({
    'matmul_forward.gelu': [plain('matmul_forward', { out: 'pre' }), plain('gelu_forward', { in: 'pre' })],
    'matmul_forward.residual': [plain('matmul_forward'), plain('residual_forward', { a: 'out', b: 'residual' })],
    'matmul_backward_input.gelu': [plain('matmul_backward_input'), plain('gelu_backward', { dout: 'din', in: 'pre' })],
    // Only for a classifier without a softcap, because no plain op computes a softcap's backward.
    classifier: [
      plain('matmul_forward', { out: 'logits' }),
      plain('cross_entropy', { dlogits: 'logits' }),
      plain('matmul_backward_input', { dout: 'logits' }),
      plain('matmul_backward_weight', { dout: 'logits' }),
    ],
  }).map(([fused, ops]) => [variantNamed(fused), ops]),
);
