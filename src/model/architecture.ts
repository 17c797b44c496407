// The parts of a model's layers, as one table: GPT-2's, and a modern GPT's (docs/recipe.md). Options, checks and defaults
// derive from this table. Each part with alternatives has a separate file: norm.ts, linear.ts, positions.ts, head.ts; initial
// weights are in parameters.ts.
import { real, whole } from '../base/checks/given.ts';
import { usageError } from '../base/errors.ts';

/**
 * The alternatives of each part, GPT-2's first. A number has a range instead; GPT-2's value is 0, or absent if 0 is
 * outside. GPT-2's switches are off.
 */
export const parts = {
  /** The norm of the residual stream, before attention, before the MLP, and before the head. RMSNorm has gains and no biases. */
  norm: ['layernorm', 'rmsnorm'],
  /** A learned table that is added to the embedding, or a rotation of queries and keys. */
  positions: ['learned', 'rotary'],
  /** RMSNorm of each head's queries and keys, without gains (QK-norm). */
  queryKeyNorm: ['none', 'rmsnorm'],
  embeddingNorm: ['none', 'rmsnorm'],
  activation: ['gelu', 'relu2'],
  /** The embedding's matrix, or a separate one with biases. */
  head: ['tied', 'untied'],
  initialization: ['gpt2', 'fan-in', 'quarter-fan-in'],
  /** The factor of the dot products of queries and keys; 0: 1 / sqrt(head size). */
  attentionScale: real(0),
  /** The largest absolute value of a logit; 0: no limit. */
  softcap: real(0),
  /** The base of rotary positions: the slowest rotation is 1 / base radians per position; 0: 1024. */
  rotaryBase: real(0),
  /** Keys that a query of a long layer (mask.ts) attends to at most, the query's own included. */
  window: whole(1),
  /** The same for the other layers; absent: half of `window`. */
  shortWindow: whole(1),
  /** Whether a query attends only to keys of its document, which begins with end of text. */
  documentMask: 'switch',
  /** Learned factors that add the embedding to each layer's input, and the first half's outputs to the second half's inputs. */
  skips: ['none', 'learned'],
  /** The number of value embeddings, tables whose rows are mixed with the values of attention in the first and last layers. */
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

/** The parts of a configuration; default for each: GPT-2's. */
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

/** A model's parts, with GPT-2's for those that a configuration leaves out. */
export const architectureOf = (config: GivenParts): Architecture => ({
  ...gpt2Architecture,
  ...otherThanGpt2(config),
});

/** @throws UsageError for parts that do not go together */
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

/** With learned skips, a layer of the second half reads the output of its mirror image: the first layer is the last one's. */
export const skippedFrom = (layer: number, layers: number): number | undefined =>
  layers - 1 - layer < layer ? layers - 1 - layer : undefined;

/** The number of layers whose skip begins before the previous layer. */
export const laterLayers = (layers: number): number => Math.ceil(layers / 2) - 1;

/** The index of a layer's value embedding: the first layers have them in order, and so do the last. */
export function valueEmbeddingOf(layer: number, layers: number, count = 0): number | undefined {
  const index = layer < count ? layer : layer - (layers - count);
  return index >= 0 && index < count ? index : undefined;
}
