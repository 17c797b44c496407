// The norm of a model's residual stream: layernorm in GPT-2, else RMSNorm, which has no mean and no biases.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { layernormBackward, layernormForward, rmsnormBackward, rmsnormForward } from '../ops/ops.generated.ts';

/** What RMSNorm adds to the mean of squares: PyTorch's default, the distance from 1 to the next fp32 number, for bf16 too. */
export const rmsnormEps = 2 ** -23;

interface NormForward {
  readonly out: Tensor;
  readonly mean?: Tensor | undefined;
  readonly rstd: Tensor;
  readonly in: Tensor;
  readonly weight: Tensor;
  readonly bias?: Tensor | undefined;
}

/** layernorm if there are a mean and a bias, else RMSNorm. */
export function normForward(device: Device, { mean, bias, ...common }: NormForward): void {
  if (mean && bias) layernormForward(device, { ...common, mean, bias });
  else rmsnormForward(device, { ...common, eps: rmsnormEps });
}

interface NormBackward {
  readonly din: Tensor;
  readonly dweight: Tensor;
  readonly dbias?: Tensor | undefined;
  readonly dout: Tensor;
  readonly dresidual: Tensor | null;
  readonly in: Tensor;
  readonly weight: Tensor;
  readonly mean?: Tensor | undefined;
  readonly rstd: Tensor;
  readonly accumulate: boolean;
}

export function normBackward(device: Device, { mean, dbias, ...common }: NormBackward): void {
  if (mean && dbias) layernormBackward(device, { ...common, mean, dbias });
  else rmsnormBackward(device, common);
}
