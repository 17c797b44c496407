// The norm of a model's residual stream: layernorm in GPT-2, else RMSNorm, which has no mean and no biases. If a matmul reads
// the result in FP8, the op stores it in FP8 too: the op holds whole rows, and the largest element of a row gives the row's
// scale. Columnwise copies, which have one scale for many rows, are transposed from rowwise copies. The norm of a row bounds the
// next matmul's results.
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import { normBackward as backward, normForward as forward, fp8Transpose } from '../ops/ops.generated.ts';
import { need, type Operand, withNorm } from './operands.ts';

/** Layernorm adds this to the variance, in GPT-2. */
const layernormEps = 1e-5;
/** RMSNorm adds this to the mean of squares: PyTorch's default, the distance from 1 to the next fp32 number, for bf16 too. */
export const rmsnormEps = 2 ** -23;

type Optional<Name extends string> = { readonly [N in Name]?: Tensor | undefined };
type Computed = 'values' | 'scale' | 'norm' | 'eps';
type Forward = Omit<Parameters<typeof forward>[1], Computed | 'out' | 'mean' | 'bias'>;
export type NormForward = Forward & Optional<'mean' | 'bias'> & { readonly out: Operand };

/** layernorm if there are a mean and a bias, else RMSNorm. */
export function normForward(device: Device, { out, mean, bias, ...rest }: NormForward): void {
  const eps = mean ? layernormEps : rmsnormEps;
  forward(device, { out: out.plain ?? null, ...stored(out), ...rest, mean: mean ?? null, bias: bias ?? null, eps });
  transpose(device, out);
}

type Backward = Omit<Parameters<typeof backward>[1], Computed | 'din' | 'mean' | 'dbias'>;
type NormBackward = Backward & Optional<'mean' | 'dbias'> & { readonly din: Operand };

export function normBackward(device: Device, { din, mean, dbias, ...rest }: NormBackward): void {
  backward(device, { din: need(din, 'plain'), ...stored(din), ...rest, mean: mean ?? null, dbias: dbias ?? null });
  transpose(device, din);
}

/** The copy in FP8 that the op stores too. */
export const stored = ({ rowwise }: Operand) =>
  rowwise ? withNorm(rowwise) : { values: null, scale: null, norm: null };

/** Makes the columnwise copy, if the matrix has one, from the rowwise copy. */
export function transpose(device: Device, { rowwise, columnwise }: Operand): void {
  if (!rowwise || !columnwise) return;
  const { values, scale, norm } = withNorm(columnwise);
  fp8Transpose(device, { columnwise: values, columnwiseScale: scale, columnwiseNorm: norm, ...withNorm(rowwise) });
}
