// Causal multi-head attention on packed q, k, v. The contract of both directions is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/** out = softmax(q k^T / sqrt(head size)) v per head; keeps the log-sum-exp of each row for backward. */
export function attentionForward(device: Device, { out, lse, qkv }: { out: Tensor; lse: Tensor; qkv: Tensor }): void {
  const type = device.elementType;
  const { B, T, C, C3, NH } = dimensions('attention_forward', {
    out: [out, type, 'B T C'],
    lse: [lse, 'fp32', 'B NH T'],
    qkv: [qkv, type, 'B T C3'],
  });
  expect('attention_forward', C3 === 3 * C, `qkv has ${C3} channels, not 3 x ${C}`);
  expect('attention_forward', C % NH === 0, `C = ${C} is not divisible by NH = ${NH}`);
  device.call('attentionForward', { out: out.pointer, lse: lse.pointer, qkv: qkv.pointer, B, T, C, NH });
}

/** dqkv from dout, with the probabilities rebuilt from lse. */
export function attentionBackward(
  device: Device,
  { dqkv, dout, out, qkv, lse }: { dqkv: Tensor; dout: Tensor; out: Tensor; qkv: Tensor; lse: Tensor },
): void {
  const type = device.elementType;
  const { B, T, C, C3, NH } = dimensions('attention_backward', {
    out: [out, type, 'B T C'],
    dout: [dout, type, 'B T C'],
    lse: [lse, 'fp32', 'B NH T'],
    qkv: [qkv, type, 'B T C3'],
    dqkv: [dqkv, type, 'B T C3'],
  });
  expect('attention_backward', C3 === 3 * C, `qkv has ${C3} channels, not 3 x ${C}`);
  expect('attention_backward', C % NH === 0, `C = ${C} is not divisible by NH = ${NH}`);
  device.call('attentionBackward', {
    dqkv: dqkv.pointer,
    dout: dout.pointer,
    out: out.pointer,
    qkv: qkv.pointer,
    lse: lse.pointer,
    B,
    T,
    C,
    NH,
  });
}

/** Bytes of workspace that either direction needs. */
export function attentionScratch(device: Device, sizes: { B: number; T: number; C: number; NH: number }): number {
  return device.scratch('attentionScratch', sizes);
}
