// The activation between the two matmuls of the MLP, fused with them: GELU in GPT-2, else the square of ReLU. GELU's backward
// needs GELU's input (`pre`); the squared ReLU's backward needs only the output. In FP8 the activation's output and its gradient
// are stored only in FP8, for the next matmuls: their scales come from bounds that are known before a row is computed.
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  fp8MatmulGeluBackwardInput,
  fp8MatmulGeluForward,
  fp8MatmulReluSquaredBackwardInput,
  fp8MatmulReluSquaredForward,
  matmulBackwardInput,
  matmulForward,
} from '../ops/ops.generated.ts';
import { transposedInFp8, weightInFp8 } from './linear.ts';
import { type Fp8Weight, need, type Operand, withNorm } from './operands.ts';

interface ActivationForward {
  readonly out: Operand;
  readonly pre: Tensor | undefined;
  readonly in: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly bias: Tensor | null;
}

/** The first matmul and the activation. */
export function matmulActivationForward(device: Device, args: ActivationForward): void {
  const { out, pre, in: input, fp8, weight, bias } = args;
  if (input.rowwise) {
    const { values, scale, norm } = withNorm(input.rowwise);
    const { columnwise } = out;
    const operands = {
      ...need(out, 'rowwise'),
      ...{ columnwise: columnwise?.values ?? null, columnwiseScale: columnwise?.scale ?? null },
      ...{ in: values, inScale: scale, inNorm: norm },
      inColumnwiseNorm: columnwise ? withNorm(need(input, 'columnwise')).norm : null,
      ...weightInFp8(device, fp8, { weight, bias }),
      bias,
    };
    if (pre) fp8MatmulGeluForward(device, { ...operands, pre });
    else fp8MatmulReluSquaredForward(device, operands);
    return;
  }
  const plain = { out: need(out, 'plain'), in: need(input, 'plain'), weight, bias };
  matmulForward(device, { ...plain, pre: pre ?? null, residual: null, activation: activationOf(pre) });
}

interface ActivationBackward {
  readonly din: Operand;
  readonly dout: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly pre: Tensor | undefined;
  readonly activated: Operand;
}

/** From the gradient of the second matmul's output to the gradient of the activation's input. */
export function matmulActivationBackwardInput(device: Device, args: ActivationBackward): void {
  const { din, dout, weight, fp8, pre, activated } = args;
  if (dout.rowwise) {
    const { values, scale, norm } = withNorm(dout.rowwise);
    const { values: columnwise, scale: columnwiseScale } = need(din, 'columnwise');
    const operands = {
      ...need(din, 'rowwise'),
      ...{ columnwise, columnwiseScale },
      ...{ dout: values, doutScale: scale, doutNorm: norm },
      doutColumnwiseNorm: withNorm(need(dout, 'columnwise')).norm,
      ...transposedInFp8(device, fp8, weight),
    };
    if (pre) fp8MatmulGeluBackwardInput(device, { ...operands, pre });
    else {
      const { values: output, scale: activatedScale } = need(activated, 'rowwise');
      const activatedColumnwiseScale = need(activated, 'columnwise').scale;
      const scales = { activatedScale, activatedColumnwiseScale };
      fp8MatmulReluSquaredBackwardInput(device, { ...operands, activated: output, ...scales });
    }
    return;
  }
  const saved = { pre: pre ?? null, activated: pre ? null : need(activated, 'plain') };
  const plain = { din: need(din, 'plain'), dout: need(dout, 'plain'), weight };
  matmulBackwardInput(device, { ...plain, ...saved, activation: activationOf(pre) });
}

const activationOf = (pre: Tensor | undefined): number =>
  pre ? GPT2_ACTIVATION.GPT2_GELU : GPT2_ACTIVATION.GPT2_RELU_SQUARED;
