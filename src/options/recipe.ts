// What --recipe sets: the model, optimizer and schedule of a modern GPT, each value with its origin (docs/recipe.md). Values
// that depend on the size of the model or of a step follow from those of the origin by stated rules. Given options override them.
import { usageError } from '../base/errors.ts';
import type { Architecture } from '../model/architecture.ts';
import { customModel, type ModelConfig, presetConfig } from '../model/config.ts';
import { parameterTable, realCount } from '../model/parameters.ts';
import { isBlockMatrix } from '../optimizer/muon.ts';
import { withGiven } from './resumed-options.ts';
import type { OptionRow } from './row.ts';
import { type OptionName, optionRows, type TrainOptions } from './table.ts';

/** A value that a recipe chooses, and where it comes from. */
export interface RecipeChoice {
  readonly name: OptionName;
  readonly value: string | number;
  readonly origin: string;
}

/** What `RecipeChoice` and docs/recipe.md call the origin. */
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

/** What does not depend on sizes. */
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
/** The smallest step at which the rates were measured to be right. */
const leastStepTokens = 65_536;
const steps = 3375;
/** Added to the root of a second moment of gradients that are summed, not averaged, over a step's tokens. */
const eps = 1e-10;
const originWidth = 768;
const originHeadSize = 128;
/** Of models whose channels are no multiple of 128, as GPT-2's. */
const smallHeadSize = 64;

/** What a recipe chooses in addition to these options: nothing that would have no effect with them. @throws UsageError if it cannot */
export function recipeChoices(given: TrainOptions): RecipeChoice[] {
  const sizes = sizesOf(given);
  const { channels } = sizes;
  const totalBatch = given.totalBatch ?? stepTokens;
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

  // Within the range the rates stay: after 450 steps of 65,536 tokens of Python sources (d12), the validation loss was 2.074 with
  // the origin's rates and 2.153 with those times sqrt(65,536 / 524,288).
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
  if (given.steps === undefined && given.tokens === undefined) add(...budgetOf(sizes, totalBatch));
  refuseBroken(given);
  const chosen = Object.fromEntries(all.map(({ name, value }) => [name, value])) as TrainOptions;
  const together = withGiven(chosen, given);
  return all.filter(({ name }) => {
    const { onlyWith }: OptionRow = optionRows[name];
    const needed = onlyWith && together[onlyWith.option as OptionName];
    return given[name] === undefined && name in together && (!onlyWith || onlyWith.values.includes(needed as string));
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
  throw usageError`--recipe is for new models, and --model ${model} has weights and parts of its own; leave out --recipe to train it further`;
}

/** @throws UsageError for rates that are another optimizer's. */
function refuseBroken(given: TrainOptions): void {
  if (given.optimizer === 'adamw' && given.learningRate === undefined) {
    throw usageError`--recipe modern with --optimizer adamw needs --lr: the recipe's, ${rates.learningRate}, is for vectors, far above those at which AdamW trains matrices; give one such as --lr 1e-3`;
  }
}

/** Without the digits that a product of decimal fractions adds. */
const round = (value: number): number => Number(value.toPrecision(6));
