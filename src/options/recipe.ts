// The choices of --recipe: the model, optimizer and schedule of a modern GPT, each value with its origin, a published script
// (docs/recipe.md, docs/windows.md). For other sizes of the model or of a step, stated rules scale the origin's values. Explicit
// options override a recipe's values.
import { usageError } from '../base/errors.ts';
import type { GivenParts } from '../model/architecture.ts';
import { customModel, type ModelConfig, presetConfig } from '../model/config.ts';
import { parameterTable, realCount } from '../model/parameters.ts';
import { isBlockMatrix } from '../optimizer/muon.ts';
import { withGiven } from './resumed-options.ts';
import type { OptionRow } from './row.ts';
import { type OptionName, optionRows, type TrainOptions } from './table.ts';

export interface RecipeChoice {
  readonly name: OptionName;
  readonly value: string | number | boolean;
  readonly origin: string;
}

/** The values that a recipe's origin, a published training script, uses for d12, and the step sizes for which the rates are known. */
interface Recipe {
  /** The origin as named in `RecipeChoice` and the docs. */
  readonly source: string;
  readonly parts: GivenParts;
  /** Options whose values do not depend on the size of the model or of a step. */
  readonly constants: TrainOptions;
  /** Learning rates for d12's 768 channels and steps of `leastStepTokens` to `stepTokens` tokens. */
  readonly rates: Readonly<Record<RateName, number>>;
  readonly stepTokens: number;
  /** The smallest step, in tokens, for which our measurements confirmed the rates. */
  readonly leastStepTokens: number;
  readonly steps: number;
  /** AdamW's epsilon. With `epsIsForSums`, for the origin's gradient sums: `recipeChoices` divides it by a step's tokens, for means. */
  readonly eps: number;
  readonly epsIsForSums?: true;
}
export type RecipeName = NonNullable<TrainOptions['recipe']>;
type RateName = 'learningRate' | 'embeddingLearningRate' | 'headLearningRate' | 'muonLearningRate';

const asIs = 'the origin';

/** The model's parts in both recipes. */
const parts = {
  norm: 'rmsnorm',
  positions: 'rotary',
  queryKeyNorm: 'rmsnorm',
  attentionScale: 0.12,
  embeddingNorm: 'rmsnorm',
  activation: 'relu2',
  head: 'untied',
  softcap: 15,
} as const satisfies GivenParts;

const constants = {
  ...{ schedule: 'trapezoid', warmup: 0, optimizer: 'muon', muonMomentum: 0.95, beta1: 0.8, beta2: 0.95 },
  ...{ gradientClip: 0 },
} as const satisfies TrainOptions;

const recipes = {
  modern: {
    source: 'train_gpt_simple.py of modded-nanogpt, track 3 (commit f411b3d, result 36)',
    parts: { ...parts, initialization: 'fan-in' },
    constants: {
      ...constants,
      ...{ sequence: 1024, decayFraction: 0.7, finalLearningRateFraction: 0, newtonSchulz: 'cubic' },
      ...{ muonWeightDecay: 0.05, weightDecay: 0.001 },
    },
    rates: { learningRate: 0.015, embeddingLearningRate: 0.7, headLearningRate: 0.004, muonLearningRate: 0.025 },
    ...{ stepTokens: 524_288, leastStepTokens: 65_536, steps: 3250, eps: 1e-10, epsIsForSums: true },
  },
  windowed: {
    source: 'the record of modded-nanogpt, track 1, of 2025-01-26 (BatchSize)',
    parts: {
      ...{ ...parts, initialization: 'quarter-fan-in', skips: 'learned', valueEmbeddings: 3 },
      // The origin's windows consist of blocks of 128 keys; on average they hold 1728 keys.
      ...{ window: 1728, documentMask: true },
    },
    constants: {
      ...constants,
      ...{ context: 49_152, sequence: 49_152, windowSchedule: 'linear' },
      ...{ decayFraction: 0.4, finalLearningRateFraction: 0.1, newtonSchulz: 'quintic', muonMomentumWarmup: 300 },
      ...{ muonWeightDecay: 0, weightDecay: 0 },
    },
    rates: { learningRate: 0.04, embeddingLearningRate: 0.6, headLearningRate: 0.008, muonLearningRate: 0.05 },
    ...{ stepTokens: 393_216, leastStepTokens: 393_216, steps: 1770, eps: 1e-10 },
  },
} as const satisfies Record<RecipeName, Recipe>;

export const recipeSource = (name: RecipeName): string => recipes[name].source;

const originWidth = 768;
const originHeadSize = 128;
/** GPT-2's head size, for models whose number of channels is no multiple of 128. */
const smallHeadSize = 64;

/** The options that a recipe adds to `asked`, without those that would have no effect. @throws UsageError if the recipe does not fit */
export function recipeChoices(name: RecipeName, asked: TrainOptions): RecipeChoice[] {
  const recipe: Recipe = recipes[name];
  const { stepTokens, leastStepTokens, eps, rates } = recipe;
  const sizes = sizesOf(asked);
  const { channels, layers } = sizes;
  const totalBatch = asked.totalBatch ?? stepTokens;
  const all: RecipeChoice[] = [];
  const add = (values: Partial<TrainOptions>, origin: string) => {
    for (const [name, value] of Object.entries(values)) all.push({ name: name as OptionName, value, origin } as never);
  };
  // The recipe repeats the model of `asked`. If the recipe named another model, `withGiven` below would drop the recipe's heads.
  add({ model: asked.model ?? 'd12' }, asIs);
  const { valueEmbeddings = 0, ...others } = recipe.parts;
  add(others, asIs);
  const fitting = Math.min(valueEmbeddings, Math.floor(layers / 2));
  const reduced = fitting === valueEmbeddings ? asIs : `${asIs} has ${valueEmbeddings}`;
  if (fitting > 0) add({ valueEmbeddings: fitting }, reduced);
  const headSize = channels % originHeadSize === 0 ? originHeadSize : smallHeadSize;
  if (channels % headSize === 0) {
    const reason = headSize === originHeadSize ? asIs : `${channels} channels are no multiple of ${originHeadSize}`;
    add({ heads: channels / headSize }, `heads of ${headSize}: ${reason}`);
  }
  add({ totalBatch: stepTokens }, asIs);
  add(recipe.constants, asIs);

  // From `leastStepTokens` to `stepTokens` tokens a step, the rates stay constant. For d12 after 450 steps of 65,536 tokens of Python
  // sources, the validation loss was 2.074 with the origin's rates and 2.153 with rates times sqrt(65,536 / 524,288).
  const nearest = Math.min(Math.max(totalBatch, leastStepTokens), stepTokens);
  const ofBatch = Math.sqrt(totalBatch / nearest);
  const ofWidth = Math.sqrt(originWidth / channels);
  for (const [name, rate] of Object.entries(rates)) {
    // Muon's rate does not depend on the number of channels, because its orthogonal updates have the same singular values at any width.
    const factor = ofBatch * (name === 'muonLearningRate' ? 1 : ofWidth);
    const rules = [
      ...(ofBatch === 1 ? [] : [`sqrt(${totalBatch} / ${nearest} tokens a step), untested`]),
      ...(factor === ofBatch ? [] : [`sqrt(${originWidth} / ${channels} channels), untested`]),
    ];
    const origin = rules.length === 0 ? asIs : [`${round(rate)}: ${asIs}`, ...rules].join(' x ');
    add({ [name]: round(rate * factor) }, origin);
  }
  const ofSums = `${eps} for sums over a step's tokens: ${asIs}; gradients are means here`;
  if (recipe.epsIsForSums) add({ eps: round(eps / totalBatch) }, ofSums);
  else add({ eps }, asIs);
  if (asked.steps === undefined && asked.tokens === undefined) add(...budgetOf(recipe, sizes, totalBatch));
  refuseBroken(name, asked);
  const chosen = Object.fromEntries(all.map(({ name, value }) => [name, value])) as TrainOptions;
  const together = withGiven(chosen, asked);
  return all.filter(({ name }) => {
    const { onlyWith }: OptionRow = optionRows[name];
    const needed = onlyWith && together[onlyWith.option as OptionName];
    return asked[name] === undefined && name in together && (!onlyWith || onlyWith.values.includes(needed as string));
  });
}

/** The number of steps with as many tokens per weight of the layers' matrices as in the origin, and this rule as text. */
function budgetOf({ steps, stepTokens, parts }: Recipe, sizes: Sizes, totalBatch: number) {
  const matrices = (of: Sizes): number =>
    parameterTable({ ...of, ...parts, heads: 1, context: 1, vocabularySize: 1 })
      .filter(isBlockMatrix)
      .reduce((sum, parameter) => sum + realCount(parameter), 0);
  const ratio = matrices(sizes) / matrices(presetConfig('d12')!);
  const tokens = steps * stepTokens * ratio;
  const origin = `${steps} steps of ${stepTokens} tokens: ${asIs}`;
  const rule = ratio === 1 ? '' : ` x ${round(ratio)}, the size of the layers' matrices over d12's, untested`;
  return [{ steps: Math.max(1, Math.round(tokens / totalBatch)) }, `${origin}${rule}`] as const;
}

type Sizes = Pick<ModelConfig, 'layers' | 'channels'>;

function sizesOf({ model = 'd12', layers, channels }: TrainOptions): Sizes {
  const preset = presetConfig(model);
  const sizes = { layers: layers ?? preset?.layers, channels: channels ?? preset?.channels };
  if (sizes.layers !== undefined && sizes.channels !== undefined) return sizes as Sizes;
  if (model === customModel) throw usageError`--model ${customModel} needs --layers and --channels; give both`;
  throw usageError`--recipe is for new models, and --model ${model} has weights and parts already; leave out --recipe to train it further`;
}

/** Refuses --optimizer adamw without --lr, because the recipe's learning rate is too high for matrices. @throws UsageError */
function refuseBroken(name: RecipeName, asked: TrainOptions): void {
  if (asked.optimizer === 'adamw' && asked.learningRate === undefined) {
    throw usageError`--recipe ${name} with --optimizer adamw needs --lr: the recipe's, ${recipes[name].rates.learningRate}, is for vectors, far above those at which AdamW trains matrices; give one such as --lr 1e-3`;
  }
}

/** Removes the digits that binary arithmetic adds when decimal fractions are multiplied. */
const round = (value: number): number => Number(value.toPrecision(6));
