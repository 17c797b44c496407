// The linear layer: weight [O,C] as PyTorch stores it, alone or together with the GELU or residual beside it in GPT-2.
// The contract of every direction is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions } from './dimensions.ts';

/** out = input * weight^T + bias. */
export function matmulForward(
  device: Device,
  { out, input, weight, bias }: { out: Tensor; input: Tensor; weight: Tensor; bias: Tensor | null },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_forward', {
    in: [input, type, 'N C'],
    weight: [weight, type, 'O C'],
    out: [out, type, 'N O'],
    bias: [bias, type, 'O'],
  });
  device.call('matmulForward', {
    out: out.pointer,
    in: input.pointer,
    weight: weight.pointer,
    bias: bias?.pointer ?? null,
    N,
    C,
    O,
  });
}

/** pre = input * weight^T + bias, out = gelu(pre). */
export function matmulGeluForward(
  device: Device,
  { out, pre, input, weight, bias }: { out: Tensor; pre: Tensor; input: Tensor; weight: Tensor; bias: Tensor | null },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_gelu_forward', {
    in: [input, type, 'N C'],
    weight: [weight, type, 'O C'],
    out: [out, type, 'N O'],
    pre: [pre, type, 'N O'],
    bias: [bias, type, 'O'],
  });
  device.call('matmulGeluForward', {
    out: out.pointer,
    pre: pre.pointer,
    in: input.pointer,
    weight: weight.pointer,
    bias: bias?.pointer ?? null,
    N,
    C,
    O,
  });
}

/** out = residual + input * weight^T + bias. */
export function matmulResidualForward(
  device: Device,
  {
    out,
    input,
    weight,
    bias,
    residual,
  }: { out: Tensor; input: Tensor; weight: Tensor; bias: Tensor | null; residual: Tensor },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_residual_forward', {
    in: [input, type, 'N C'],
    weight: [weight, type, 'O C'],
    out: [out, type, 'N O'],
    bias: [bias, type, 'O'],
    residual: [residual, type, 'N O'],
  });
  device.call('matmulResidualForward', {
    out: out.pointer,
    in: input.pointer,
    weight: weight.pointer,
    bias: bias?.pointer ?? null,
    residual: residual.pointer,
    N,
    C,
    O,
  });
}

/** dinput = dout * weight. */
export function matmulBackwardInput(
  device: Device,
  { dinput, dout, weight }: { dinput: Tensor; dout: Tensor; weight: Tensor },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_backward_input', {
    dout: [dout, type, 'N O'],
    weight: [weight, type, 'O C'],
    din: [dinput, type, 'N C'],
  });
  device.call('matmulBackwardInput', { din: dinput.pointer, dout: dout.pointer, weight: weight.pointer, N, C, O });
}

/** dinput = (dout * weight) * gelu'(pre): through the matmul and the GELU before it. */
export function matmulGeluBackwardInput(
  device: Device,
  { dinput, dout, weight, pre }: { dinput: Tensor; dout: Tensor; weight: Tensor; pre: Tensor },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_gelu_backward_input', {
    dout: [dout, type, 'N O'],
    weight: [weight, type, 'O C'],
    pre: [pre, type, 'N C'],
    din: [dinput, type, 'N C'],
  });
  device.call('matmulGeluBackwardInput', {
    din: dinput.pointer,
    dout: dout.pointer,
    weight: weight.pointer,
    pre: pre.pointer,
    N,
    C,
    O,
  });
}

/** dweight = or += (accumulate) dout^T * input; dbias likewise the column sums of dout. */
export function matmulBackwardWeight(
  device: Device,
  {
    dweight,
    dbias,
    dout,
    input,
    accumulate,
  }: {
    dweight: Tensor;
    dbias: Tensor | null;
    dout: Tensor;
    input: Tensor;
    accumulate: boolean;
  },
): void {
  const type = device.elementType;
  const { N, C, O } = dimensions('matmul_backward_weight', {
    dout: [dout, type, 'N O'],
    in: [input, type, 'N C'],
    dweight: [dweight, device.gradientType, 'O C'],
    dbias: [dbias, 'fp32', 'O'],
  });
  device.call('matmulBackwardWeight', {
    dweight: dweight.pointer,
    dbias: dbias?.pointer ?? null,
    dout: dout.pointer,
    in: input.pointer,
    N,
    C,
    O,
    accumulate: accumulate ? 1 : 0,
  });
}

/** Bytes of workspace that any direction needs. */
export function matmulScratch(device: Device, sizes: { N: number; C: number; O: number }): number {
  return device.scratch('matmulScratch', sizes);
}
