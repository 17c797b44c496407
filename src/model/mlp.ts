// The activation between the two matmuls of the MLP, fused with them: GELU in GPT-2, else the square of ReLU. GELU's backward
// needs GELU's input (`pre`); the squared ReLU's backward needs only the output. In FP8 the activation's output and its gradient
// are stored only in FP8, for the next matmuls: their scales come from bounds that are known before a row is computed.
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulReluSquaredBackwardInput,
  matmulReluSquaredForward,
} from '../ops/ops.generated.ts';
import { fp8BackwardInput, fp8Forward } from './linear.ts';
import { type Fp8Weight, need, type Operand } from './operands.ts';

interface ActivationForward {
  readonly out: Operand;
  readonly pre: Tensor | undefined;
  readonly in: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly bias: Tensor;
}

/** The first matmul and the activation. */
export function matmulActivationForward(device: Device, args: ActivationForward): void {
  const { out, pre, in: input, weight, bias } = args;
  if (input.rowwise) {
    fp8Forward(device, { ...args, activation: activationOf(pre) });
    return;
  }
  const plain = { out: need(out, 'plain'), in: need(input, 'plain'), weight, bias };
  if (pre) matmulGeluForward(device, { ...plain, pre });
  else matmulReluSquaredForward(device, plain);
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
  const { din, dout, weight, pre, activated } = args;
  if (dout.rowwise) {
    fp8BackwardInput(device, { ...args, activated: pre ? undefined : activated, activation: activationOf(pre) });
    return;
  }
  const plain = { din: need(din, 'plain'), dout: need(dout, 'plain'), weight };
  if (pre) matmulGeluBackwardInput(device, { ...plain, pre });
  else matmulReluSquaredBackwardInput(device, { ...plain, activated: need(activated, 'plain') });
}

const activationOf = (pre: Tensor | undefined): number =>
  pre ? GPT2_ACTIVATION.GPT2_GELU : GPT2_ACTIVATION.GPT2_RELU_SQUARED;
