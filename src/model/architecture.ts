// The parts of a model's layers, as one table: GPT-2's, and those of a modern GPT (docs/recipe.md). Options, checks and defaults
// derive from this table. Each part with alternatives has a separate file: norm.ts, linear.ts, positions.ts, head.ts; initial
// weights are in parameters.ts.
import { real } from '../base/checks/number.ts';
import { usageError } from '../base/errors.ts';

/** The alternatives of each part, GPT-2's first. A part that is a number has a range instead; GPT-2's value is 0. */
export const parts = {
  /** The norm of the residual stream, before attention, before the MLP, and before the head. RMSNorm has gains and no biases. */
  norm: ['layernorm', 'rmsnorm'],
  /** A learned table that is added to the embedding, or a rotation of queries and keys. */
  positions: ['learned', 'rotary'],
  /** RMSNorm of each head's queries and keys, without gains (QK-norm). */
  queryKeyNorm: ['none', 'rmsnorm'],
  /** The norm of the embedding. */
  embeddingNorm: ['none', 'rmsnorm'],
  activation: ['gelu', 'relu2'],
  /** The embedding's matrix, or a separate one with biases. */
  head: ['tied', 'untied'],
  /** The distributions of the initial weights. */
  initialization: ['gpt2', 'fan-in'],
  /** The factor of the dot products of queries and keys; 0: 1 / sqrt(head size). */
  attentionScale: real(0),
  /** The largest absolute value of a logit; 0: no limit. */
  softcap: real(0),
} as const;

type ValueOf<Part> = Part extends readonly (infer Name)[] ? Name : number;

/** The parts of a model. */
export type Architecture = { readonly [P in keyof typeof parts]: ValueOf<(typeof parts)[P]> };

/** The parts of a configuration; default for each: GPT-2's. */
export type GivenParts = { readonly [P in keyof Architecture]?: Architecture[P] | undefined };

export const gpt2Architecture = Object.fromEntries(
  Object.entries(parts).map(([part, values]) => [part, 'number' in values ? 0 : values[0]]),
) as Architecture;

export const architectureNames = Object.keys(parts) as readonly (keyof Architecture)[];

/** The parts that are not GPT-2's. */
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
export function checkArchitecture(config: GivenParts, headSize: number): void {
  const { positions, queryKeyNorm, attentionScale } = architectureOf(config);
  if (positions === 'rotary' && headSize % 4 !== 0) {
    throw usageError`positions rotary need a head size that is a multiple of 4, not ${headSize}; take other --channels or --heads`;
  }
  if (queryKeyNorm === 'rmsnorm' && headSize % 2 !== 0) {
    throw usageError`queryKeyNorm rmsnorm needs an even head size, not ${headSize}; take other --channels or --heads`;
  }
  if (attentionScale !== 0 && positions === 'learned' && queryKeyNorm === 'none') {
    throw usageError`attentionScale ${attentionScale} needs positions rotary or queryKeyNorm rmsnorm, whose kernel applies it; give one of them`;
  }
}
