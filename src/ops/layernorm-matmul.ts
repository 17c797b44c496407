// The layernorm and the linear layer behind it as one op, for texts that grow by a token at a time. The contract is in
// cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions } from './dimensions.ts';

/** Of both forms: input [N,C] is normalised, then multiplied by weight [O,C]. */
interface Normed {
  readonly out: Tensor;
  readonly input: Tensor;
  readonly normWeight: Tensor;
  readonly normBias: Tensor;
  readonly weight: Tensor;
  readonly bias: Tensor | null;
}

/** out = layernorm(input) * weight^T + bias. */
export function layernormMatmulForward(device: Device, given: Normed): void {
  device.call('layernormMatmulForward', check(device, 'layernorm_matmul_forward', given));
}

/** pre = layernorm(input) * weight^T + bias, out = gelu(pre). */
export function layernormMatmulGeluForward(device: Device, { pre, ...given }: Normed & { pre: Tensor }): void {
  const op = 'layernorm_matmul_gelu_forward';
  const args = check(device, op, given);
  dimensions(op, { out: [given.out, device.elementType, 'N O'], pre: [pre, device.elementType, 'N O'] });
  device.call('layernormMatmulGeluForward', { ...args, pre: pre.pointer });
}

function check(device: Device, op: string, { out, input, normWeight, normBias, weight, bias }: Normed) {
  const type = device.elementType;
  const { N, C, O } = dimensions(op, {
    in: [input, type, 'N C'],
    norm_weight: [normWeight, type, 'C'],
    norm_bias: [normBias, type, 'C'],
    weight: [weight, type, 'O C'],
    out: [out, type, 'N O'],
    bias: [bias, type, 'O'],
  });
  return {
    out: out.pointer,
    in: input.pointer,
    normWeight: normWeight.pointer,
    normBias: normBias.pointer,
    weight: weight.pointer,
    bias: bias?.pointer ?? null,
    N,
    C,
    O,
  };
}

/** Bytes of workspace that either form needs. */
export function layernormMatmulScratch(device: Device, sizes: { N: number; C: number; O: number }): number {
  return device.scratch('layernormMatmulScratch', sizes);
}
