// Layer normalisation over the last dimension, eps 1e-5. The contract of both directions is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions } from './dimensions.ts';

/** out = (in - mean) * rstd * weight + bias; keeps mean and rstd of each row for backward. */
export function layernormForward(
  device: Device,
  {
    out,
    mean,
    rstd,
    input,
    weight,
    bias,
  }: {
    out: Tensor;
    mean: Tensor;
    rstd: Tensor;
    input: Tensor;
    weight: Tensor;
    bias: Tensor;
  },
): void {
  const type = device.elementType;
  const { N, C } = dimensions('layernorm_forward', {
    in: [input, type, 'N C'],
    out: [out, type, 'N C'],
    mean: [mean, 'fp32', 'N'],
    rstd: [rstd, 'fp32', 'N'],
    weight: [weight, type, 'C'],
    bias: [bias, type, 'C'],
  });
  device.call('layernormForward', {
    out: out.pointer,
    mean: mean.pointer,
    rstd: rstd.pointer,
    in: input.pointer,
    weight: weight.pointer,
    bias: bias.pointer,
    N,
    C,
  });
}

/** dinput = the gradient through the layernorm + dresidual, which passes beside it (null: nothing; may be dinput itself). */
export function layernormBackward(
  device: Device,
  {
    dinput,
    dweight,
    dbias,
    dout,
    dresidual,
    input,
    weight,
    mean,
    rstd,
    accumulate,
  }: {
    dinput: Tensor;
    dweight: Tensor;
    dbias: Tensor;
    dout: Tensor;
    dresidual: Tensor | null;
    input: Tensor;
    weight: Tensor;
    mean: Tensor;
    rstd: Tensor;
    accumulate: boolean;
  },
): void {
  const type = device.elementType;
  const { N, C } = dimensions('layernorm_backward', {
    in: [input, type, 'N C'],
    din: [dinput, type, 'N C'],
    dout: [dout, type, 'N C'],
    dresidual: [dresidual, type, 'N C'],
    dweight: [dweight, 'fp32', 'C'],
    dbias: [dbias, 'fp32', 'C'],
    weight: [weight, type, 'C'],
    mean: [mean, 'fp32', 'N'],
    rstd: [rstd, 'fp32', 'N'],
  });
  device.call('layernormBackward', {
    din: dinput.pointer,
    dweight: dweight.pointer,
    dbias: dbias.pointer,
    dout: dout.pointer,
    dresidual: dresidual?.pointer ?? null,
    in: input.pointer,
    weight: weight.pointer,
    mean: mean.pointer,
    rstd: rstd.pointer,
    N,
    C,
    accumulate: accumulate ? 1 : 0,
  });
}

/** Bytes of workspace that layernormBackward needs. */
export function layernormScratch(device: Device, sizes: { N: number; C: number }): number {
  return device.scratch('layernormScratch', sizes);
}
