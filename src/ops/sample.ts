// The choice of the next token from its logits. The contract, with the formula, is in cuda/gpt2.h.
import type { Tensor } from '../native/buffer.ts';
import type { Device } from '../native/device.ts';
import { dimensions, expect } from './dimensions.ts';

/** How a token is chosen. */
export interface Choice {
  /** Logits are divided by it; 0 always takes the likeliest. */
  readonly temperature: number;
  /** Only the k likeliest tokens; 0: all. */
  readonly topK: number;
  /** Only the likeliest tokens that together have this probability (Holtzman et al. 2019); 1: all. */
  readonly topP: number;
}

/** tokens[b,positions[b]+1] = a choice, -1 if a logit is no number; positions[b] += 1. Nothing where a text is full. */
export function sample(
  device: Device,
  {
    tokens,
    positions,
    logits,
    seeds,
    vocabulary,
    temperature,
    topK,
    topP,
  }: { tokens: Tensor; positions: Tensor; logits: Tensor; seeds: Tensor; vocabulary: number } & Choice,
): void {
  const { B } = dimensions('sample', {
    positions: [positions, 'int32', 'B'],
    seeds: [seeds, 'int32', 'B'],
    tokens: [tokens, 'int32', 'B text'],
    logits: [logits, device.elementType, 'B Vp'],
  });
  const Vp = logits.shape.at(-1)!;
  expect('sample', vocabulary <= Vp, `V = ${vocabulary} is over the ${Vp} columns of logits`);
  device.call('sample', {
    tokens: tokens.pointer,
    positions: positions.pointer,
    logits: logits.pointer,
    seeds: seeds.pointer,
    B,
    S: tokens.shape.at(-1)! - 1,
    V: vocabulary,
    Vp,
    temperature,
    topK,
    topP,
  });
}

/** Bytes of workspace that sample needs. */
export function sampleScratch(device: Device, sizes: { B: number; V: number }): number {
  return device.scratch('sampleScratch', sizes);
}
