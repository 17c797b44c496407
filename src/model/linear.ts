// The matmuls of a linear layer: its output, and the gradients of its input and its weight. The MLP's activation is fused with them:
// GELU in GPT-2, else the squared ReLU. GELU's backward needs the activation's input (`pre`), the squared ReLU's only the output.
// A matmul runs in FP8 if its operands have FP8 copies (docs/fp8.md), else in the device's dtype. In FP8, the activation's output and
// the gradient of its input are stored only in FP8, and `pre` holds GELU's derivative, one byte an element.
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
} from '../ops/ops.generated.ts';
import { type Fp8Weight, need, type Operand, withNorm } from './operands.ts';

export interface LinearForward {
  /** The result [N,O] in plain layout. If it is an activation's output in FP8: rowwise, and also columnwise if there is memory. */
  readonly out: Operand;
  readonly in: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  readonly bias: Tensor | null;
  readonly residual?: Tensor;
  /** Whether an activation follows the matmul: GELU if `pre` is present, else the squared ReLU. */
  readonly activates?: boolean;
  readonly pre?: Tensor | undefined;
}

/** Enqueues out = in * weight^T + bias + residual, or out = activation(in * weight^T + bias). */
export function linearForward(device: Device, args: LinearForward): void {
  const { out, in: input, weight, fp8, bias, residual = null, activates = false, pre = null } = args;
  const common = { bias, residual, activation: activationOf(activates, pre) };
  if (!input.rowwise) {
    matmulForward(device, { out: need(out, 'plain'), pre, in: need(input, 'plain'), weight, ...common });
    return;
  }
  fp8MatmulForward(device, {
    ...{ out: activates ? null : need(out, 'plain'), ...storedIn(out), derivative: pre },
    ...{ in: input.rowwise.values, inScale: input.rowwise.scale },
    inNorm: activates ? normOf(input, 'rowwise') : null,
    inColumnwiseNorm: out.columnwise ? normOf(input, 'columnwise') : null,
    ...weightInFp8(device, fp8, { weight, bias: activates ? bias : null }),
    ...common,
  });
}

interface LinearBackwardInput {
  /** The result [N,C]: in plain layout or, if it is the gradient of an activation's input, as a rowwise and a columnwise copy in FP8. */
  readonly din: Operand;
  readonly dout: Operand;
  readonly weight: Tensor;
  readonly fp8?: Fp8Weight | undefined;
  /** The activation's output, if this output is the linear layer's input; `din` is then the gradient of the activation's input. */
  readonly activated?: Operand;
  readonly pre?: Tensor | undefined;
}

/** Enqueues din = dout * weight, times the activation's derivative if there is an activation. */
export function linearBackwardInput(device: Device, args: LinearBackwardInput): void {
  const { din, dout, weight, fp8, activated, pre = null } = args;
  const activation = activationOf(activated !== undefined, pre);
  // Backward of the squared ReLU reads the activation's output. Backward of GELU reads `pre` instead.
  const output = pre ? undefined : activated;
  if (!dout.rowwise) {
    const operands = { din: need(din, 'plain'), dout: need(dout, 'plain'), weight };
    matmulBackwardInput(device, { ...operands, pre, activated: output ? need(output, 'plain') : null, activation });
    return;
  }
  fp8MatmulBackwardInput(device, {
    ...{ din: activated ? null : need(din, 'plain'), ...storedIn(din) },
    ...{ dout: dout.rowwise.values, doutScale: dout.rowwise.scale },
    doutNorm: activated ? normOf(dout, 'rowwise') : null,
    doutColumnwiseNorm: activated ? normOf(dout, 'columnwise') : null,
    ...transposedInFp8(device, fp8, weight),
    activated: output ? need(output, 'rowwise').values : null,
    activatedScale: output ? need(output, 'rowwise').scale : null,
    activatedColumnwiseScale: output ? need(output, 'columnwise').scale : null,
    ...{ derivative: pre, activation },
  });
}

type Gradients = Pick<Parameters<typeof matmulBackwardWeight>[1], 'dweight' | 'dbias' | 'accumulate'>;
/** N is the number of rows of `dout` [N,O] and `in` [N,C]. */
type LinearBackwardWeight = Gradients & { readonly dout: Operand; readonly in: Operand; readonly N: number };

/** Enqueues dweight = dout^T * in and dbias = column sums of dout; with `accumulate`, both are added to. */
export function linearBackwardWeight(device: Device, { dout, in: input, N, ...gradients }: LinearBackwardWeight): void {
  if (!dout.columnwise || !input.columnwise) {
    matmulBackwardWeight(device, { ...gradients, dout: need(dout, 'plain'), in: need(input, 'plain') });
    return;
  }
  const [a, b] = [dout.columnwise, input.columnwise];
  const operands = { dout: a.values, doutScale: a.scale, in: b.values, inScale: b.scale };
  fp8MatmulBackwardWeight(device, { ...gradients, ...operands, N });
}

const { GPT2_NO_ACTIVATION, GPT2_GELU, GPT2_RELU_SQUARED } = GPT2_ACTIVATION;

const activationOf = (activates: boolean, pre: Tensor | null): number =>
  !activates ? GPT2_NO_ACTIVATION : pre ? GPT2_GELU : GPT2_RELU_SQUARED;

/** The op's arguments for an FP8 result: the memory of its rowwise and columnwise copies. All are null for a result in plain layout. */
const storedIn = ({ rowwise, columnwise }: Operand) => ({
  ...{ values: rowwise?.values ?? null, scale: rowwise?.scale ?? null },
  ...{ columnwise: columnwise?.values ?? null, columnwiseScale: columnwise?.scale ?? null },
});

const normOf = (operand: Operand, layout: 'rowwise' | 'columnwise'): Tensor => withNorm(need(operand, layout)).norm;

/** Quantises a weight [O,C] for the next matmul; if `memory.kept`, also its transpose, for backward. @param bias if the result is in FP8 */
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

/** The transposed FP8 copy [C,O] of a weight [O,C], for the gradient of the input: forward's copy, or a new one. */
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
