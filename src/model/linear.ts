// The matmuls of a linear layer: its output, and the gradients of its input and its weight. A matmul is in FP8 if its operands
// have copies in FP8, else in the device's dtype. docs/fp8.md says why no copy of a weight is older than the weight.
import { GPT2_ACTIVATION } from '../native/bindings.generated.ts';
import type { Device } from '../native/device.ts';
import type { Tensor } from '../native/tensor.ts';
import {
  fp8MatmulBackwardInput,
  fp8MatmulBackwardWeight,
  fp8MatmulForward,
  fp8QuantizeWeight,
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulResidualForward,
} from '../ops/ops.generated.ts';
import { type Fp8Weight, need, type Operand, withNorm } from './operands.ts';

const activation = GPT2_ACTIVATION.GPT2_NO_ACTIVATION;

interface LinearForward {
  readonly out: Tensor;
  readonly in: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly bias: Tensor;
  readonly residual?: Tensor;
}

/** out = in * weight^T + bias + residual */
export function linearForward(device: Device, args: LinearForward): void {
  const { out, in: input, weight, bias, residual } = args;
  if (input.rowwise) fp8Forward(device, { ...args, out: { plain: out }, activation });
  else if (residual) matmulResidualForward(device, { out, in: need(input, 'plain'), weight, bias, residual });
  else matmulForward(device, { out, in: need(input, 'plain'), weight, bias });
}

interface LinearBackwardInput {
  readonly din: Tensor;
  readonly dout: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
}

/** din = dout * weight */
export function linearBackwardInput(device: Device, args: LinearBackwardInput): void {
  const { din, dout, weight } = args;
  if (dout.rowwise) fp8BackwardInput(device, { ...args, din: { plain: din }, activation });
  else matmulBackwardInput(device, { din, dout: need(dout, 'plain'), weight });
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

interface Fp8Forward extends Omit<LinearForward, 'out'> {
  /** Plain; with an activation rowwise, and columnwise if there is memory for it. */
  readonly out: Operand;
  readonly pre?: Tensor | undefined;
  /** A GPT2_ACTIVATION. */
  readonly activation: number;
}

/** A matmul in FP8: out = activation(in * weight^T + bias) + residual. */
export function fp8Forward(device: Device, args: Fp8Forward): void {
  const { out, pre = null, in: input, weight, fp8, bias, residual = null, activation } = args;
  const { rowwise, columnwise } = out;
  const { values, scale } = need(input, 'rowwise');
  fp8MatmulForward(device, {
    ...{ out: rowwise ? null : need(out, 'plain'), ...storedIn(out), pre, in: values, inScale: scale },
    inNorm: rowwise ? normOf(input, 'rowwise') : null,
    inColumnwiseNorm: columnwise ? normOf(input, 'columnwise') : null,
    ...weightInFp8(device, fp8, { weight, bias: rowwise ? bias : null }),
    ...{ bias, residual, activation },
  });
}

interface Fp8BackwardInput extends Omit<LinearBackwardInput, 'din'> {
  /** Plain; through an activation rowwise and columnwise. */
  readonly din: Operand;
  readonly pre?: Tensor | undefined;
  /** The squared ReLU's output. */
  readonly activated?: Operand | undefined;
  /** A GPT2_ACTIVATION. */
  readonly activation: number;
}

/** A matmul in FP8: din = dout * weight, times the activation's derivative. */
export function fp8BackwardInput(device: Device, args: Fp8BackwardInput): void {
  const { din, dout, weight, fp8, pre = null, activated, activation } = args;
  const { rowwise } = din;
  const { values, scale } = need(dout, 'rowwise');
  fp8MatmulBackwardInput(device, {
    ...{ din: rowwise ? null : need(din, 'plain'), ...storedIn(din), dout: values, doutScale: scale },
    doutNorm: rowwise ? normOf(dout, 'rowwise') : null,
    doutColumnwiseNorm: rowwise ? normOf(dout, 'columnwise') : null,
    ...transposedInFp8(device, fp8, weight),
    pre,
    activated: activated ? need(activated, 'rowwise').values : null,
    activatedScale: activated ? need(activated, 'rowwise').scale : null,
    activatedColumnwiseScale: activated ? need(activated, 'columnwise').scale : null,
    activation,
  });
}

/** Memory for a result in FP8; null for a plain result. */
const storedIn = ({ rowwise, columnwise }: Operand) => ({
  ...{ values: rowwise?.values ?? null, scale: rowwise?.scale ?? null },
  ...{ columnwise: columnwise?.values ?? null, columnwiseScale: columnwise?.scale ?? null },
});

const normOf = (operand: Operand, layout: 'rowwise' | 'columnwise'): Tensor => withNorm(need(operand, layout)).norm;

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
function transposedInFp8(
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
