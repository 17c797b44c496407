// The norm of a model's residual stream: layernorm in GPT-2, else RMSNorm, which has no mean and no biases. Where a product reads
// the result in FP8, the op also stores it so: it holds whole rows, and the largest element of each is its scale.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import {
  layernormBackward,
  layernormForward,
  layernormFp8Backward,
  layernormFp8Forward,
  rmsnormBackward,
  rmsnormForward,
  rmsnormFp8Backward,
  rmsnormFp8Forward,
} from '../ops/ops.generated.ts';
import type { Fp8Matrix } from './linear.ts';

/** What RMSNorm adds to the mean of squares: PyTorch's default, the distance from 1 to the next fp32 number, for bf16 too. */
export const rmsnormEps = 2 ** -23;

interface NormForward {
  readonly out: Tensor;
  /** Receives `out` in FP8. */
  readonly fp8?: Fp8Matrix | undefined;
  readonly mean?: Tensor | undefined;
  readonly rstd: Tensor;
  readonly in: Tensor;
  readonly weight: Tensor;
  readonly bias?: Tensor | undefined;
}

/** layernorm if there are a mean and a bias, else RMSNorm. */
export function normForward(device: Device, { fp8, mean, bias, ...common }: NormForward): void {
  const [values, scale] = [fp8?.values, fp8?.scale];
  const isLayernorm = mean && bias;
  if (isLayernorm && values && scale) layernormFp8Forward(device, { ...common, values, scale, mean, bias });
  else if (isLayernorm) layernormForward(device, { ...common, mean, bias });
  else if (values && scale) rmsnormFp8Forward(device, { ...common, values, scale, eps: rmsnormEps });
  else rmsnormForward(device, { ...common, eps: rmsnormEps });
}

interface NormBackward {
  readonly din: Tensor;
  /** Receives `din` in FP8. */
  readonly fp8?: Fp8Matrix | undefined;
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

export function normBackward(device: Device, { fp8, mean, dbias, ...common }: NormBackward): void {
  const [values, scale] = [fp8?.values, fp8?.scale];
  const isLayernorm = mean && dbias;
  if (isLayernorm && values && scale) layernormFp8Backward(device, { ...common, values, scale, mean, dbias });
  else if (isLayernorm) layernormBackward(device, { ...common, mean, dbias });
  else if (values && scale) rmsnormFp8Backward(device, { ...common, values, scale });
  else rmsnormBackward(device, common);
}
