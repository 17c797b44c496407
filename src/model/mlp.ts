// The activation between the two matmuls of the MLP: GELU in GPT-2, else the square of ReLU. GELU's backward needs its input
// (`pre`); that of the squared ReLU only its output.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import {
  matmulGeluBackwardInput,
  matmulGeluForward,
  matmulReluSquaredBackwardInput,
  matmulReluSquaredForward,
} from '../ops/ops.generated.ts';

interface ActivationForward {
  readonly out: Tensor;
  readonly pre: Tensor | undefined;
  readonly in: Tensor;
  readonly weight: Tensor;
  readonly bias: Tensor;
}

/** The first matmul and the activation. */
export function matmulActivationForward(device: Device, { pre, ...common }: ActivationForward): void {
  if (pre) matmulGeluForward(device, { ...common, pre });
  else matmulReluSquaredForward(device, common);
}

interface ActivationBackward {
  readonly din: Tensor;
  readonly dout: Tensor;
  readonly weight: Tensor;
  readonly pre: Tensor | undefined;
  readonly activated: Tensor;
}

/** From the gradient of the second matmul's output to that of the activation's input. */
export function matmulActivationBackwardInput(device: Device, { pre, activated, ...common }: ActivationBackward): void {
  if (pre) matmulGeluBackwardInput(device, { ...common, pre });
  else matmulReluSquaredBackwardInput(device, { ...common, activated });
}
