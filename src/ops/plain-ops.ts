// The plain ops of which a fused op consists. Kernels of a user that compute one of them take the place of the fused op
// (kernels/use-cards.ts), and the fused op's formula is theirs (cases/op-case.ts).
import type { OpContract } from './contract.ts';
import { contracts } from './ops.generated.ts';

/** A plain op, and the fused op's names for those of its arguments that have others there. */
export type PlainOp = readonly [op: OpContract, renamed: Readonly<Record<string, string>>];

const { matmulForward, matmulBackwardInput, matmulBackwardWeight, geluForward, geluBackward } = contracts;
const { residualForward, crossEntropy } = contracts;

/** In order, by the name of the fused op's contract. */
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
  // The classifier without a softcap, for whose backward there is no plain op.
  classifier: [
    [matmulForward, { out: 'logits' }],
    [crossEntropy, { dlogits: 'logits' }],
    [matmulBackwardInput, { dout: 'logits' }],
    [matmulBackwardWeight, { dout: 'logits' }],
  ],
};
