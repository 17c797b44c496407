// The linear layer: weight [O,C] as PyTorch stores it. The contract of the three directions is in cuda/gpt2.h.
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

/** Bytes of workspace that any of the three directions needs. */
export function matmulScratch(device: Device, sizes: { N: number; C: number; O: number }): number {
  return device.scratch('matmulScratch', sizes);
}
