// The product of a linear layer, in FP8 where its input has a copy in FP8 (docs/fp8.md), else in the device's dtype. A weight is
// quantised just before the product that uses it, so that it is never older than the weight itself.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import {
  fp8Matmul,
  fp8QuantizeWeight,
  matmulBackwardInput,
  matmulForward,
  matmulResidualForward,
} from '../ops/ops.generated.ts';

/** A matrix in FP8: values, and a scale for each row. */
export interface Fp8Matrix {
  readonly values: Tensor;
  readonly scale: Tensor;
}

/** A copy in FP8 of a product's input, and memory for the weight that multiplies it. */
export interface Fp8Copy extends Fp8Matrix {
  readonly weight: { readonly values: Tensor; readonly factors: Tensor };
}

interface LinearForward {
  readonly out: Tensor;
  readonly in: Tensor;
  /** The copy of `in`. */
  readonly fp8: Fp8Copy | undefined;
  readonly weight: Tensor;
  readonly bias: Tensor;
  readonly residual?: Tensor;
}

/** out = in * weight^T + bias + residual */
export function linearForward(device: Device, { fp8, residual, ...common }: LinearForward): void {
  if (fp8) {
    const { out, weight, bias } = common;
    const operands = { in: fp8.values, inScale: fp8.scale, ...weightInFp8(device, fp8, { weight }) };
    fp8Matmul(device, { out, ...operands, bias, residual: residual ?? null });
  } else if (residual) matmulResidualForward(device, { ...common, residual });
  else matmulForward(device, common);
}

interface LinearBackward {
  readonly din: Tensor;
  readonly dout: Tensor;
  /** The copy of `dout`. */
  readonly fp8: Fp8Copy | undefined;
  readonly weight: Tensor;
}

/** din = dout * weight */
export function linearBackwardInput(device: Device, { fp8, ...common }: LinearBackward): void {
  if (!fp8) {
    matmulBackwardInput(device, common);
    return;
  }
  const { transposed, factors } = transposedInFp8(device, fp8, common.weight);
  const operands = { in: fp8.values, inScale: fp8.scale, weight: transposed, factors };
  fp8Matmul(device, { out: common.din, ...operands, bias: null, residual: null });
}

/** Quantises a weight [O,C] for the product with a copy. @param bias bounds a result that the product stores in FP8 */
export function weightInFp8(
  device: Device,
  { weight: { values, factors } }: Fp8Copy,
  { weight, bias = null }: { readonly weight: Tensor; readonly bias?: Tensor | null },
): { readonly weight: Tensor; readonly factors: Tensor } {
  const quantized = values.view(weight.shape);
  fp8QuantizeWeight(device, { values: quantized, transposed: null, factors, weight, bias });
  return { weight: quantized, factors };
}

/** Quantises a weight [O,C] for a product with its transpose, [C,O]. */
export function transposedInFp8(
  device: Device,
  { weight: { values, factors } }: Fp8Copy,
  weight: Tensor,
): { readonly transposed: Tensor; readonly factors: Tensor } {
  const transposed = values.view(weight.shape.toReversed());
  fp8QuantizeWeight(device, { values: null, transposed, factors, weight, bias: null });
  return { transposed, factors };
}
