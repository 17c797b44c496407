// Masks of attention: the first key that each query attends to, from windows and document starts. The host computes these positions
// from a batch's tokens and uploads them with the tokens, so that windows may change from step to step.
import type { Tensor } from '../native/tensor.ts';
import type { ActivationSet } from './activations.ts';
import type { ModelConfig } from './config.ts';

/** The most keys that a query attends to, in long layers and in the other layers; undefined for no limit. */
export interface Windows {
  readonly long?: number | undefined;
  readonly short?: number | undefined;
}

/** Whether a layer has the long window: the first and last layer, and every fourth layer counted from the nearer of these two. */
const isLong = (layer: number, layers: number): boolean => Math.min(layer, layers - 1 - layer) % 4 === 0;

export const windowsOf = ({ window: long, shortWindow }: Pick<ModelConfig, 'window' | 'shortWindow'>): Windows => ({
  long,
  short: long === undefined ? undefined : (shortWindow ?? Math.ceil(long / 2)),
});

const windowStep = 128;

/** The windows in step `step` of `steps`, growing linearly to the model's windows in multiples of 128 tokens. */
export function growingWindows(config: ModelConfig, step: number, steps: number): Windows {
  const grown = (window: number | undefined) =>
    window && Math.min(window, windowStep * Math.max(1, Math.ceil((window * step) / steps / windowStep)));
  const { long, short } = windowsOf(config);
  return { long: grown(long), short: grown(short) };
}

/** Position of each query's first key, [B,T], for long layers and for the other layers; absent without a window or document mask. */
export function firstKeys(
  { documentMask, endOfText, ...config }: ModelConfig,
  inputs: Int32Array,
  T: number,
  { long, short } = windowsOf(config),
): { readonly [Name in 'firstLong' | 'firstShort']?: Int32Array } {
  const within = (window: number | undefined): Int32Array => {
    const first = new Int32Array(inputs.length);
    let document = 0;
    for (let at = 0; at < inputs.length; at++) {
      const t = at % T;
      if (t === 0) document = 0;
      if (documentMask && inputs[at] === endOfText) document = t;
      first[at] = window === undefined ? document : Math.max(document, t - window + 1);
    }
    return first;
  };
  if (config.window === undefined) return documentMask ? { firstLong: within(undefined) } : {};
  return { firstLong: within(long), firstShort: within(short) };
}

/** Each query's first key in a layer, [B,T] in device memory; null without a window or document mask. */
export const firstOf = ({ model, layers }: ActivationSet, layer: number): Tensor | null =>
  (isLong(layer, layers.length) ? model.firstLong : (model.firstShort ?? model.firstLong)) ?? null;

/** The most keys that a query of a layer attends to, by the model's windows; 0 for no limit. */
export function windowOf(config: Omit<ModelConfig, 'heads' | 'context'>, layer: number): number {
  const { long = 0, short = 0 } = windowsOf(config);
  return isLong(layer, config.layers) ? long : short;
}
