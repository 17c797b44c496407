// Token and position embedding. The contract of both directions is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/** out[b,t,:] = wte[tokens[b,t],:] + wpe[t,:]; `vocabulary` is the count of real tokens. */
export function embeddingForward(
  device: Device,
  { out, tokens, wte, wpe, vocabulary }: { out: Tensor; tokens: Tensor; wte: Tensor; wpe: Tensor; vocabulary: number },
): void {
  const type = device.elementType;
  const { B, T, C } = dimensions('embedding_forward', {
    tokens: [tokens, 'int32', 'B T'],
    out: [out, type, 'B T C'],
    wte: [wte, type, 'V C'],
    wpe: [wpe, type, 'context C'],
  });
  expect('embedding_forward', T <= wpe.shape[0]!, `T = ${T} is over the ${wpe.shape[0]} positions of wpe`);
  expect('embedding_forward', vocabulary <= wte.shape[0]!, `V = ${vocabulary} is over the ${wte.shape[0]} rows of wte`);
  device.call('embeddingForward', {
    out: out.pointer,
    tokens: tokens.pointer,
    wte: wte.pointer,
    wpe: wpe.pointer,
    B,
    T,
    C,
    V: vocabulary,
  });
}

/**
 * out[b,t,:] = wte[tokens[b,p+t],:] + wpe[p+t,:] with p = positions[b]: the newest T tokens of texts of up to S tokens.
 * `tokens` [B,S+1]: a text's last choice is kept behind what the model can run.
 */
export function embeddingAtForward(
  device: Device,
  {
    out,
    tokens,
    positions,
    wte,
    wpe,
    vocabulary,
  }: { out: Tensor; tokens: Tensor; positions: Tensor; wte: Tensor; wpe: Tensor; vocabulary: number },
): void {
  const type = device.elementType;
  const { B, T, C } = dimensions('embedding_at_forward', {
    positions: [positions, 'int32', 'B'],
    tokens: [tokens, 'int32', 'B text'],
    out: [out, type, 'B T C'],
    wte: [wte, type, 'V C'],
    wpe: [wpe, type, 'context C'],
  });
  const S = tokens.shape.at(-1)! - 1;
  expect('embedding_at_forward', S <= wpe.shape[0]!, `S = ${S} is over the ${wpe.shape[0]} positions of wpe`);
  expect(
    'embedding_at_forward',
    vocabulary <= wte.shape[0]!,
    `V = ${vocabulary} is over the ${wte.shape[0]} rows of wte`,
  );
  device.call('embeddingAtForward', {
    out: out.pointer,
    tokens: tokens.pointer,
    positions: positions.pointer,
    wte: wte.pointer,
    wpe: wpe.pointer,
    B,
    T,
    S,
    C,
    V: vocabulary,
  });
}

/** dwte += rows of dout by token; dwpe = or += (accumulate) the sum of dout over the batch, first T rows only. */
export function embeddingBackward(
  device: Device,
  {
    dwte,
    dwpe,
    dout,
    tokens,
    vocabulary,
    accumulate,
  }: {
    dwte: Tensor;
    dwpe: Tensor;
    dout: Tensor;
    tokens: Tensor;
    vocabulary: number;
    accumulate: boolean;
  },
): void {
  const { B, T, C } = dimensions('embedding_backward', {
    tokens: [tokens, 'int32', 'B T'],
    dout: [dout, device.elementType, 'B T C'],
    dwte: [dwte, device.gradientType, 'V C'],
    dwpe: [dwpe, device.gradientType, 'context C'],
  });
  expect('embedding_backward', T <= dwpe.shape[0]!, `T = ${T} is over the ${dwpe.shape[0]} positions of dwpe`);
  expect(
    'embedding_backward',
    vocabulary <= dwte.shape[0]!,
    `V = ${vocabulary} is over the ${dwte.shape[0]} rows of dwte`,
  );
  device.call('embeddingBackward', {
    dwte: dwte.pointer,
    dwpe: dwpe.pointer,
    dout: dout.pointer,
    tokens: tokens.pointer,
    B,
    T,
    C,
    V: vocabulary,
    accumulate: accumulate ? 1 : 0,
  });
}

/** Bytes of workspace that embeddingBackward needs. */
export function embeddingScratch(device: Device, sizes: { B: number; T: number; C: number; V: number }): number {
  return device.scratch('embeddingScratch', sizes);
}
