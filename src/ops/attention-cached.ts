// Causal attention of new positions over a cache of keys and values. The contract is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/** Puts the keys and values of qkv into the cache from positions[b] on; out = attention over all positions so far. */
export function attentionCachedForward(
  device: Device,
  { out, keys, values, qkv, positions }: { out: Tensor; keys: Tensor; values: Tensor; qkv: Tensor; positions: Tensor },
): void {
  const type = device.elementType;
  const { B, T, S, C, C3, NH, HS } = dimensions('attention_cached_forward', {
    positions: [positions, 'int32', 'B'],
    out: [out, type, 'B T C'],
    keys: [keys, type, 'B NH S HS'],
    values: [values, type, 'B NH S HS'],
    qkv: [qkv, type, 'B T C3'],
  });
  expect('attention_cached_forward', C3 === 3 * C, `qkv has ${C3} channels, not 3 x ${C}`);
  expect('attention_cached_forward', NH * HS === C, `the cache has ${NH} heads of ${HS}, which is not C = ${C}`);
  device.call('attentionCachedForward', {
    out: out.pointer,
    keys: keys.pointer,
    values: values.pointer,
    qkv: qkv.pointer,
    positions: positions.pointer,
    B,
    T,
    S,
    C,
    NH,
  });
}

/** Bytes of workspace that attentionCachedForward needs for a cache of S positions. */
export function attentionCachedScratch(device: Device, sizes: { S: number }): number {
  return device.scratch('attentionCachedScratch', sizes);
}
