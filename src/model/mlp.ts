// The activation between the two matmuls of the MLP: GELU in GPT-2, else the square of ReLU. GELU's backward needs its input
// (`pre`); that of the squared ReLU only its output. The products are those of linear.ts; with GELU they also store their results in
// FP8, for the next product: a row of GELU's output or of its gradient has a bound that is known before the row is computed. The
// square of ReLU has one that is too far from its elements, so that what reads it is not in FP8.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import {
  fp8MatmulGeluBackwardInput,
  fp8MatmulGeluForward,
  fp8MatmulReluSquaredBackwardInput,
  fp8MatmulReluSquaredForward,
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulReluSquaredBackwardInput,
  matmulReluSquaredForward,
} from '../ops/ops.generated.ts';
import { type Fp8Copy, type Fp8Matrix, transposedInFp8, weightInFp8 } from './linear.ts';

interface ActivationForward {
  readonly out: Tensor;
  /** Receives `out` in FP8. */
  readonly outFp8?: Fp8Matrix | undefined;
  readonly pre: Tensor | undefined;
  readonly in: Tensor;
  /** The copy of `in`. */
  readonly fp8?: Fp8Copy | undefined;
  readonly weight: Tensor;
  readonly bias: Tensor;
}

/** The first matmul and the activation. */
export function matmulActivationForward(device: Device, args: ActivationForward): void {
  const { outFp8, pre, fp8, ...common } = args;
  if (fp8) {
    const { out, bias } = common;
    const operands = { in: fp8.values, inScale: fp8.scale, ...weightInFp8(device, fp8, common), bias };
    if (pre) fp8MatmulGeluForward(device, { out, ...stored(outFp8), pre, ...operands });
    else fp8MatmulReluSquaredForward(device, { out, ...operands });
  } else if (pre) matmulGeluForward(device, { ...common, pre });
  else matmulReluSquaredForward(device, common);
}

/** The copy in FP8 that GELU's products store in addition to their result. */
function stored(copy: Fp8Matrix | undefined): Fp8Matrix {
  if (!copy) throw new Error('with GELU, products in FP8 store their results in FP8');
  return { values: copy.values, scale: copy.scale };
}

interface ActivationBackward {
  readonly din: Tensor;
  /** Receives `din` in FP8. */
  readonly dinFp8?: Fp8Matrix | undefined;
  readonly dout: Tensor;
  /** The copy of `dout`. */
  readonly fp8?: Fp8Copy | undefined;
  readonly weight: Tensor;
  readonly pre: Tensor | undefined;
  readonly activated: Tensor;
}

/** From the gradient of the second matmul's output to that of the activation's input. */
export function matmulActivationBackwardInput(device: Device, args: ActivationBackward): void {
  const { dinFp8, fp8, pre, activated, ...common } = args;
  if (fp8) {
    const { din, weight } = common;
    const operands = { dout: fp8.values, doutScale: fp8.scale, ...transposedInFp8(device, fp8, weight) };
    if (pre) fp8MatmulGeluBackwardInput(device, { din, ...stored(dinFp8), ...operands, pre });
    else fp8MatmulReluSquaredBackwardInput(device, { din, ...operands, activated });
  } else if (pre) matmulGeluBackwardInput(device, { ...common, pre });
  else matmulReluSquaredBackwardInput(device, { ...common, activated });
}
