// The parts of a model, such as norm and activation, as one table of alternatives: GPT-2's, and a modern GPT's
// (docs/recipe.md). Options, checks and defaults derive from the table. norm.ts, linear.ts, positions.ts, streams.ts and head.ts
// implement the parts; parameters.ts has their initial weights.
import { real, whole } from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';

/**
 * The alternatives of each part, GPT-2's first. A part that is a number has a range instead; GPT-2's value is 0, or absent if the
 * range excludes 0. A part that is a switch is off in GPT-2.
 */
export const parts = {
  /** The norm of the residual stream, before attention, before the MLP, and before the head. RMSNorm has gains and no biases. */
  norm: ['layernorm', 'rmsnorm'],
  /** The encoding of positions: a learned table that is added to the embedding, or a rotation of queries and keys. */
  positions: ['learned', 'rotary'],
  /** QK-norm: none, or RMSNorm without gains over each head's queries and keys. */
  queryKeyNorm: ['none', 'rmsnorm'],
  embeddingNorm: ['none', 'rmsnorm'],
  activation: ['gelu', 'relu2'],
  /** The matrix of the LM head: the token embedding's (tied), or a separate matrix with biases. */
  head: ['tied', 'untied'],
  initialization: ['gpt2', 'fan-in', 'quarter-fan-in'],
  /** The factor by which attention multiplies dot products of queries and keys; 0 means 1 / sqrt(head size). */
  attentionScale: real(0),
  /** A smooth limit of the logits' absolute values; 0 for no limit. */
  softcap: real(0),
  /** The base of rotary positions: the slowest rotation is 1 / base radians per position. 0 means 1024. */
  rotaryBase: real(0),
  /** The most keys that a query attends to in long layers (mask.ts), including the key at the query's position. */
  window: whole(1),
  /** The most keys that a query attends to in layers that are not long. Default: half of `window`. */
  shortWindow: whole(1),
  /** Whether a query attends only to keys of the same document. Documents begin with the token end of text. */
  documentMask: 'switch',
  /** Learned skips: a layer's input is a weighted sum of residual stream, embedding and, in later layers, an earlier layer's output. */
  skips: ['none', 'learned'],
  /** The number of value embeddings: tables of token embeddings that are mixed into attention's values in the first and last layers. */
  valueEmbeddings: whole(0),
} as const;

type ValueOf<Part> = Part extends readonly (infer Name)[]
  ? Name
  : Part extends 'switch'
    ? boolean
    : Part extends { readonly integer: unknown }
      ? number | undefined
      : number;

export type Architecture = { readonly [P in keyof typeof parts]: ValueOf<(typeof parts)[P]> };

/** The parts that a configuration names. Missing parts are GPT-2's. */
export type GivenParts = { readonly [P in keyof Architecture]?: Architecture[P] | undefined };

export const gpt2Architecture = Object.fromEntries(
  Object.entries(parts).map(([part, values]) => [part, gpt2Value(values)]),
) as Architecture;

function gpt2Value(values: (typeof parts)[keyof typeof parts]) {
  if (values === 'switch') return false;
  if ('integer' in values) return values.integer[0] === 0 ? 0 : undefined;
  return 'number' in values ? 0 : values[0];
}

export const architectureNames = Object.keys(parts) as readonly (keyof Architecture)[];

export const otherThanGpt2 = (config: GivenParts): Partial<Architecture> =>
  Object.fromEntries(
    architectureNames.flatMap((name) => {
      const value = config[name];
      return value === undefined || value === gpt2Architecture[name] ? [] : [[name, value] as const];
    }),
  );

/** All parts of a model: those that the configuration names, and GPT-2's for the rest. */
export const architectureOf = (config: GivenParts): Architecture => ({
  ...gpt2Architecture,
  ...otherThanGpt2(config),
});

/** Checks that a configuration's parts can be combined. @throws UsageError naming the parts that cannot */
export function checkArchitecture(config: GivenParts & { readonly layers: number }, headSize: number): void {
  const { window, shortWindow, valueEmbeddings = 0, ...others } = architectureOf(config);
  const { positions, queryKeyNorm, attentionScale, rotaryBase } = others;
  if (2 * valueEmbeddings > config.layers) {
    throw usageError`--value-embeddings ${valueEmbeddings} need twice as many layers, not ${config.layers}; give fewer`;
  }
  if (shortWindow !== undefined && !(window !== undefined && window >= shortWindow)) {
    throw usageError`--short-window ${shortWindow} needs a window that is at least as long, not ${window ?? 'none'}; give another --window`;
  }
  if (positions === 'rotary' && headSize % 4 !== 0) {
    throw usageError`--positions rotary needs a head size that is a multiple of 4, not ${headSize}; take other --channels or --heads`;
  }
  if ((queryKeyNorm === 'rmsnorm' || valueEmbeddings > 0) && headSize % 2 !== 0) {
    const part = valueEmbeddings > 0 ? 'valueEmbeddings' : 'queryKeyNorm rmsnorm';
    throw usageError`${part} needs an even head size, not ${headSize}; take other --channels or --heads`;
  }
  if (attentionScale !== 0 && positions === 'learned' && queryKeyNorm === 'none') {
    throw usageError`--attention-scale ${attentionScale} needs --positions rotary or --qk-norm rmsnorm, whose kernel applies it; give one of them, or --attention-scale 0`;
  }
  if (rotaryBase !== 0 && positions === 'learned') {
    throw usageError`--rotary-base ${rotaryBase} has no effect with --positions learned; give --positions rotary too`;
  }
}

/** The layer whose output a layer of the second half reads by a learned skip: its mirror image. Undefined for the first half. */
export const skippedFrom = (layer: number, layers: number): number | undefined =>
  layers - 1 - layer < layer ? layers - 1 - layer : undefined;

/** The number of layers with a skip from a layer that is not the previous layer. */
export const laterLayers = (layers: number): number => Math.ceil(layers / 2) - 1;

/** The index of a layer's value embedding: the first `count` layers have embeddings 0, 1, ..., and so do the last `count` layers. */
export function valueEmbeddingOf(layer: number, layers: number, count = 0): number | undefined {
  const index = layer < count ? layer : layer - (layers - count);
  return index >= 0 && index < count ? index : undefined;
}
