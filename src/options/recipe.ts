// The choices of --recipe: the model, optimizer and schedule of a modern GPT, each value with its origin (docs/recipe.md). Values
// that depend on the size of the model or of a step follow from the origin's values by stated rules. Explicit options override
// them.
import { usageError } from '../base/errors.ts';
import type { Architecture } from '../model/architecture.ts';
import { customModel, type ModelConfig, presetConfig } from '../model/config.ts';
import { parameterTable, realCount } from '../model/parameters.ts';
import { isBlockMatrix } from '../optimizer/muon.ts';
import { withGiven } from './resumed-options.ts';
import type { OptionRow } from './row.ts';
import { type OptionName, optionRows, type TrainOptions } from './table.ts';

/** A value that a recipe chooses, and its origin. */
export interface RecipeChoice {
  readonly name: OptionName;
  readonly value: string | number;
  readonly origin: string;
}

/** The name of the origin in `RecipeChoice` and docs/recipe.md. */
export const recipeSource = 'train_gpt_simple.py of modded-nanogpt, track 3 (commit 04447b4)';
const asIs = 'the origin';

/** The parts of the model. */
const parts = {
  norm: 'rmsnorm',
  positions: 'rotary',
  queryKeyNorm: 'rmsnorm',
  attentionScale: 0.12,
  embeddingNorm: 'rmsnorm',
  activation: 'relu2',
  head: 'untied',
  softcap: 15,
  initialization: 'fan-in',
} as const satisfies Architecture;

/** Values that do not depend on sizes. */
const constants = {
  ...{ sequence: 1024, schedule: 'trapezoid', decayFraction: 0.7, finalLearningRateFraction: 0, warmup: 0 },
  ...{ optimizer: 'muon', muonMomentum: 0.95, newtonSchulz: 'cubic', beta1: 0.8, beta2: 0.95 },
  ...{ muonWeightDecay: 0.025, weightDecay: 0, gradientClip: 0 },
} as const satisfies TrainOptions;

/** Learning rates at d12's width, for steps of `leastStepTokens` to `stepTokens`. */
const rates = {
  learningRate: 0.01,
  embeddingLearningRate: 0.3,
  headLearningRate: 1 / 320,
  muonLearningRate: 0.025,
} as const;

const stepTokens = 524_288;
/** The smallest step for which measurements confirmed the rates. */
const leastStepTokens = 65_536;
const steps = 3375;
/** Added to the root of a second moment of gradients that are summed, not averaged, over a step's tokens. */
const eps = 1e-10;
const originWidth = 768;
const originHeadSize = 128;
/** Head size of models whose channels are no multiple of 128, as GPT-2's. */
const smallHeadSize = 64;

/** A recipe's choices in addition to these options, without those that would have no effect. @throws UsageError if it cannot */
export function recipeChoices(asked: TrainOptions): RecipeChoice[] {
  const sizes = sizesOf(asked);
  const { channels } = sizes;
  const totalBatch = asked.totalBatch ?? stepTokens;
  const all: RecipeChoice[] = [];
  const add = (values: Partial<TrainOptions>, origin: string) => {
    for (const [name, value] of Object.entries(values)) all.push({ name: name as OptionName, value, origin } as never);
  };
  add({ model: 'd12' }, asIs);
  add(parts, asIs);
  const headSize = channels % originHeadSize === 0 ? originHeadSize : smallHeadSize;
  if (channels % headSize === 0) {
    const reason = headSize === originHeadSize ? asIs : `${channels} channels are no multiple of ${originHeadSize}`;
    add({ heads: channels / headSize }, `heads of ${headSize}: ${reason}`);
  }
  add({ totalBatch: stepTokens }, asIs);
  add(constants, asIs);

  // Within the range the rates stay constant: after 450 steps of 65,536 tokens of Python sources (d12), the validation loss was
  // 2.074 with the origin's rates and 2.153 with rates times sqrt(65,536 / 524,288).
  const nearest = Math.min(Math.max(totalBatch, leastStepTokens), stepTokens);
  const ofBatch = Math.sqrt(totalBatch / nearest);
  const ofWidth = Math.sqrt(originWidth / channels);
  for (const [name, rate] of Object.entries(rates)) {
    // Muon's update has the same size in each direction at any width.
    const factor = ofBatch * (name === 'muonLearningRate' ? 1 : ofWidth);
    const rules = [
      ...(ofBatch === 1 ? [] : [`sqrt(${totalBatch} / ${nearest} tokens a step), untested`]),
      ...(factor === ofBatch ? [] : [`sqrt(${originWidth} / ${channels} channels), untested`]),
    ];
    add(
      { [name]: round(rate * factor) },
      rules.length === 0 ? asIs : [`${round(rate)}: ${asIs}`, ...rules].join(' x '),
    );
  }
  add({ eps: round(eps / totalBatch) }, `${eps} for sums over a step's tokens: ${asIs}; gradients are means here`);
  if (asked.steps === undefined && asked.tokens === undefined) add(...budgetOf(sizes, totalBatch));
  refuseBroken(asked);
  const chosen = Object.fromEntries(all.map(({ name, value }) => [name, value])) as TrainOptions;
  const together = withGiven(chosen, asked);
  return all.filter(({ name }) => {
    const { onlyWith }: OptionRow = optionRows[name];
    const needed = onlyWith && together[onlyWith.option as OptionName];
    return asked[name] === undefined && name in together && (!onlyWith || onlyWith.values.includes(needed as string));
  });
}

/** As many tokens for each weight of the layers' matrices as in the origin. */
function budgetOf(sizes: Sizes, totalBatch: number): [TrainOptions, origin: string] {
  const matrices = (of: Sizes): number =>
    parameterTable({ ...of, ...parts, heads: 1, context: 1, vocabularySize: 1 })
      .filter(isBlockMatrix)
      .reduce((sum, parameter) => sum + realCount(parameter), 0);
  const ratio = matrices(sizes) / matrices(presetConfig('d12')!);
  const tokens = steps * stepTokens * ratio;
  const origin = `${steps} steps of ${stepTokens} tokens: ${asIs}`;
  const rule = ratio === 1 ? '' : ` x ${round(ratio)}, the size of the layers' matrices over d12's, untested`;
  return [{ steps: Math.max(1, Math.round(tokens / totalBatch)) }, `${origin}${rule}`];
}

type Sizes = Pick<ModelConfig, 'layers' | 'channels'>;

function sizesOf({ model = 'd12', layers, channels }: TrainOptions): Sizes {
  const preset = presetConfig(model);
  const sizes = { layers: layers ?? preset?.layers, channels: channels ?? preset?.channels };
  if (sizes.layers !== undefined && sizes.channels !== undefined) return sizes as Sizes;
  if (model === customModel) throw usageError`--model ${customModel} needs --layers and --channels; give both`;
  throw usageError`--recipe is for new models, and --model ${model} has weights and parts already; leave out --recipe to train it further`;
}

/** @throws UsageError for learning rates of another optimizer */
function refuseBroken(asked: TrainOptions): void {
  if (asked.optimizer === 'adamw' && asked.learningRate === undefined) {
    throw usageError`--recipe modern with --optimizer adamw needs --lr: the recipe's, ${rates.learningRate}, is for vectors, far above those at which AdamW trains matrices; give one such as --lr 1e-3`;
  }
}

/** Removes the digits that binary arithmetic adds to a product of decimal fractions. */
const round = (value: number): number => Number(value.toPrecision(6));
