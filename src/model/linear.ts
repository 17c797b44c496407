// The matmuls of a linear layer: its output, and the gradients of its input and its weight. A matmul is in FP8 if its operands
// have copies in FP8, else in the device's dtype. docs/fp8.md says why no copy of a weight is older than the weight.
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  fp8Matmul,
  fp8MatmulBackwardWeight,
  fp8QuantizeWeight,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
} from '../ops/ops.generated.ts';
import { type Fp8Matrix, type Fp8Weight, need, type Operand } from './operands.ts';

const activation = GPT2_ACTIVATION.GPT2_NO_ACTIVATION;

interface LinearForward {
  readonly out: Tensor;
  readonly in: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly bias: Tensor | null;
  readonly residual?: Tensor;
}

/** out = in * weight^T + bias + residual */
export function linearForward(device: Device, args: LinearForward): void {
  const { out, in: input, weight, fp8, bias, residual = null } = args;
  if (input.rowwise) {
    const operands = { ...readRowwise(input.rowwise), ...weightInFp8(device, fp8, { weight }) };
    fp8Matmul(device, { out, ...operands, bias, residual });
    return;
  }
  matmulForward(device, { out, pre: null, in: need(input, 'plain'), weight, bias, residual, activation });
}

interface LinearBackwardInput {
  readonly din: Tensor;
  readonly dout: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
}

/** din = dout * weight */
export function linearBackwardInput(device: Device, { din, dout, weight, fp8 }: LinearBackwardInput): void {
  if (!dout.rowwise) {
    const plain = { din, dout: need(dout, 'plain'), weight };
    matmulBackwardInput(device, { ...plain, pre: null, activated: null, activation });
    return;
  }
  const { transposed, factors } = transposedInFp8(device, fp8, weight);
  const operands = { ...readRowwise(dout.rowwise), weight: transposed, factors };
  fp8Matmul(device, { out: din, ...operands, bias: null, residual: null });
}

interface LinearBackwardWeight {
  readonly dweight: Tensor;
  readonly dbias: Tensor;
  readonly dout: Operand;
  readonly in: Operand;
  /** Rows of dout and in. */
  readonly N: number;
  readonly accumulate: boolean;
}

/** dweight (=|+=) dout^T * in; dbias (=|+=) column sums of dout */
export function linearBackwardWeight(device: Device, { dout, in: input, N, ...gradients }: LinearBackwardWeight): void {
  if (!dout.columnwise || !input.columnwise) {
    matmulBackwardWeight(device, { ...gradients, dout: need(dout, 'plain'), in: need(input, 'plain') });
    return;
  }
  const [a, b] = [dout.columnwise, input.columnwise];
  const operands = { dout: a.values, doutScale: a.scale, in: b.values, inScale: b.scale };
  fp8MatmulBackwardWeight(device, { ...gradients, ...operands, N });
}

const readRowwise = ({ values, scale }: Fp8Matrix) => ({ in: values, inScale: scale });

/** Quantises a weight [O,C] for the next matmul and for backward, if kept. @param bias needed if the result is stored in FP8 */
export function weightInFp8(
  device: Device,
  memory: Fp8Weight | undefined,
  { weight, bias = null }: { readonly weight: Tensor; readonly bias?: Tensor | null },
): { readonly weight: Tensor; readonly factors: Tensor } {
  const { values: all, factors: shared, kept } = neededMemory(memory);
  const [values, factors] = [all.view(weight.shape), kept?.factors ?? shared];
  fp8QuantizeWeight(device, { values, transposed: kept?.transposed ?? null, factors, weight, bias });
  return { weight: values, factors };
}

/** A weight [O,C] in FP8, transposed to [C,O] for the gradient of the input. */
export function transposedInFp8(
  device: Device,
  memory: Fp8Weight | undefined,
  weight: Tensor,
): { readonly transposed: Tensor; readonly factors: Tensor } {
  const { values, factors, kept } = neededMemory(memory);
  if (kept) return kept;
  const transposed = values.view(weight.shape.toReversed());
  fp8QuantizeWeight(device, { values: null, transposed, factors, weight, bias: null });
  return { transposed, factors };
}

function neededMemory(memory: Fp8Weight | undefined): Fp8Weight {
  if (!memory) throw new Error('a matmul in FP8 needs memory for its weight in FP8');
  return memory;
}
