// The first key that each query attends to, from windows and starts of documents. The host computes the array from a batch's
// tokens and uploads both together, so that windows may change from step to step.
import type { Tensor } from '../native/tensor.ts';
import type { ActivationSet } from './activations.ts';
import type { ModelConfig } from './config.ts';

/** Most keys of a query, in long layers and in the others; undefined: all keys before the query. */
export interface Windows {
  readonly long?: number | undefined;
  readonly short?: number | undefined;
}

/** Whether a layer has the long window: the first and the last layer, and every fourth from the nearer of both. */
const isLong = (layer: number, layers: number): boolean => Math.min(layer, layers - 1 - layer) % 4 === 0;

export const windowsOf = ({ window: long, shortWindow }: Pick<ModelConfig, 'window' | 'shortWindow'>): Windows => ({
  long,
  short: long === undefined ? undefined : (shortWindow ?? Math.ceil(long / 2)),
});

const windowStep = 128;

/** The windows of a step of training if they grow linearly, in steps of 128 tokens, to the model's. */
export function growingWindows(config: ModelConfig, step: number, steps: number): Windows {
  const grown = (window: number | undefined) =>
    window && Math.min(window, windowStep * Math.max(1, Math.ceil((window * step) / steps / windowStep)));
  const { long, short } = windowsOf(config);
  return { long: grown(long), short: grown(short) };
}

/** The first key of each query of the long layers and of the others, [B,T] each; absent where attention has no limit. */
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

/** The first keys of a layer's queries, in device memory; null without a limit. */
export const firstOf = ({ model, layers }: ActivationSet, layer: number): Tensor | null =>
  (isLong(layer, layers.length) ? model.firstLong : (model.firstShort ?? model.firstLong)) ?? null;

/** The most keys of a query in generation; 0: no limit. */
export function windowOf(config: Omit<ModelConfig, 'heads' | 'context'>, layer: number): number {
  const { long = 0, short = 0 } = windowsOf(config);
  return isLong(layer, config.layers) ? long : short;
}
