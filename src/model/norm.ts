// The norm of a model's residual stream: layernorm in GPT-2, else RMSNorm, which has no mean and no biases. If a matmul reads
// the result in FP8, the op stores it in FP8 too: the op holds whole rows, and the largest element of a row gives the row's
// scale. Columnwise copies, which have one scale for many rows, are transposed from rowwise copies. The norm of a row bounds the
// next matmul's results.
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  fp8Transpose,
  layernormBackward,
  layernormForward,
  layernormFp8Backward,
  layernormFp8Forward,
  rmsnormBackward,
  rmsnormForward,
  rmsnormFp8Backward,
  rmsnormFp8Forward,
} from '../ops/ops.generated.ts';
import { need, type Operand, withNorm } from './operands.ts';

/** RMSNorm adds this to the mean of squares: PyTorch's default, the distance from 1 to the next fp32 number, for bf16 too. */
export const rmsnormEps = 2 ** -23;

interface NormForward {
  readonly out: Operand;
  readonly mean?: Tensor | undefined;
  readonly rstd: Tensor;
  readonly in: Tensor;
  readonly weight: Tensor;
  readonly bias?: Tensor | undefined;
}

/** layernorm if there are a mean and a bias, else RMSNorm. */
export function normForward(device: Device, { out, mean, bias, ...common }: NormForward): void {
  const isLayernorm = mean && bias;
  if (out.rowwise) {
    const outputs = { out: out.plain ?? null, ...withNorm(out.rowwise) };
    if (isLayernorm) layernormFp8Forward(device, { ...outputs, ...common, mean, bias });
    else rmsnormFp8Forward(device, { ...outputs, ...common, eps: rmsnormEps });
  } else if (isLayernorm) layernormForward(device, { out: need(out, 'plain'), ...common, mean, bias });
  else rmsnormForward(device, { out: need(out, 'plain'), ...common, eps: rmsnormEps });
  transpose(device, out);
}

interface NormBackward {
  readonly din: Operand;
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

export function normBackward(device: Device, { din, mean, dbias, ...rest }: NormBackward): void {
  const common = { ...rest, din: need(din, 'plain') };
  const isLayernorm = mean && dbias;
  if (isLayernorm && din.rowwise) layernormFp8Backward(device, { ...common, ...withNorm(din.rowwise), mean, dbias });
  else if (isLayernorm) layernormBackward(device, { ...common, mean, dbias });
  else if (din.rowwise) rmsnormFp8Backward(device, { ...common, ...withNorm(din.rowwise) });
  else rmsnormBackward(device, common);
  transpose(device, din);
}

/** Makes the columnwise copy, if the matrix has one, from the rowwise copy. */
function transpose(device: Device, { rowwise, columnwise }: Operand): void {
  if (!rowwise || !columnwise) return;
  const { values, scale, norm } = withNorm(columnwise);
  fp8Transpose(device, { columnwise: values, columnwiseScale: scale, columnwiseNorm: norm, ...withNorm(rowwise) });
}
