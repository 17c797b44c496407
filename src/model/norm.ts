// The norm of a model's residual stream: layernorm in GPT-2, else RMSNorm, which has no mean and no biases. If a matmul reads the
// result in FP8, the op also stores a rowwise FP8 copy, and the L2 norm of each row, which bounds the next matmul's results. A row's
// scale follows from the row's largest element. Columnwise copies, with one scale for 512 rows, are made from rowwise copies.
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import { normBackward as backward, normForward as forward, fp8Transpose } from '../ops/ops.generated.ts';
import { need, type Operand, withNorm } from './operands.ts';

/** GPT-2's layernorm adds this to the variance. */
const layernormEps = 1e-5;
/** RMSNorm adds this to the mean of squares, in every dtype: PyTorch's default, the distance from 1 to the next fp32 number. */
export const rmsnormEps = 2 ** -23;

type Optional<Name extends string> = { readonly [N in Name]?: Tensor | undefined };
type Computed = 'values' | 'scale' | 'norm' | 'eps';
type Forward = Omit<Parameters<typeof forward>[1], Computed | 'out' | 'mean' | 'bias'>;
export type NormForward = Forward & Optional<'mean' | 'bias'> & { readonly out: Operand };

/** Enqueues the norm of each row: layernorm if `mean` and `bias` are present, else RMSNorm. */
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

/** The op's arguments for the rowwise FP8 copy that it stores; null without one. */
export const stored = ({ rowwise }: Operand) =>
  rowwise ? withNorm(rowwise) : { values: null, scale: null, norm: null };

/** Fills a matrix's columnwise FP8 copy from its rowwise copy; does nothing if either is absent. */
export function transpose(device: Device, { rowwise, columnwise }: Operand): void {
  if (!rowwise || !columnwise) return;
  const { values, scale, norm } = withNorm(columnwise);
  fp8Transpose(device, { columnwise: values, columnwiseScale: scale, columnwiseNorm: norm, ...withNorm(rowwise) });
}
