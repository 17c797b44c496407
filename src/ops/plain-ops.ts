// The plain ops of which a fused op consists. If kernels of a user compute one of them, the fused op is split
// (kernels/use-cards.ts). The fused op's formula consists of the plain ops' formulas (cases/op-case.ts).
import type { OpContract } from './contract.ts';
import { contracts } from './ops.generated.ts';

/** A plain op, and the names that its arguments have in the fused op where they differ. */
export type PlainOp = readonly [op: OpContract, renamed: Readonly<Record<string, string>>];

const { matmulForward, matmulBackwardInput, matmulBackwardWeight, geluForward, geluBackward } = contracts;
const { residualForward, crossEntropy } = contracts;

/** The plain ops in order, by the name of the fused op's contract. */
export const plainOps: Readonly<Record<string, readonly PlainOp[]>> = {
  matmulGeluForward: [
    [matmulForward, { out: 'pre' }],
    [geluForward, { in: 'pre' }],
  ],
  matmulResidualForward: [
    [matmulForward, {}],
    [residualForward, { a: 'out', b: 'residual' }],
  ],
  matmulGeluBackwardInput: [
    [matmulBackwardInput, {}],
    [geluBackward, { dout: 'din', in: 'pre' }],
  ],
  // For a classifier without a softcap: no plain op computes a softcap's backward.
  classifier: [
    [matmulForward, { out: 'logits' }],
    [crossEntropy, { dlogits: 'logits' }],
    [matmulBackwardInput, { dout: 'logits' }],
    [matmulBackwardWeight, { dout: 'logits' }],
  ],
};
