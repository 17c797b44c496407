// Completes options with defaults once the device and the model are known, checks rules about several options, freezes the options,
// and derives the model that they describe.
import { UsageError, usageError, words } from '../base/errors.ts';
import { architectureOf, gpt2Architecture, otherThanGpt2 } from '../model/architecture.ts';
import {
  checkConfig,
  customModel,
  defaultContext,
  gpt2VocabularySize,
  isNewModel,
  type ModelConfig,
  presetConfig,
} from '../model/config.ts';
import type { LibraryKind } from '../native/find-library.ts';
import { defaultOf, type Facts } from './row.ts';
import { validationSequences } from './running-rows.ts';
import {
  type DefaultedOptions,
  type OptionName,
  optionNames,
  optionRows,
  optionTable,
  type ResolvedOptions,
  recordedNames,
  spell,
  type TrainOptions,
} from './table.ts';

/**
 * Fills in defaults, and checks rules about several options.
 * @param asked options, including those of a config file or of the resumed run
 * @param weights the configuration of the model that --model names, if known yet; its parts take precedence over defaults
 * @throws UsageError
 */
export function completeOptions(asked: TrainOptions, kind: LibraryKind, weights?: ModelConfig): DefaultedOptions {
  const facts = factsOf(asked, kind, weights);
  const options = withDefaults({ ...(weights && architectureOf(weights)), ...asked }, facts);
  checkNeeds(asked);
  refuseBoth(asked);
  checkOptions(options, facts);
  return options;
}

/**
 * Refuses options that several ranks cannot use. Ranks on the CPU are only for tests, so they need an explicit --device cpu. With
 * --batch auto, ranks with different free memory would choose different batches.
 * @throws UsageError for several ranks with --batch auto, or without GPUs unless --device is cpu
 */
export function refuseRanks({ ranks, device, batch }: TrainOptions, kind: LibraryKind): void {
  if (ranks === 1) return;
  if (kind !== 'cuda' && device !== 'cpu') {
    throw usageError`--gpus ${ranks} needs GPUs, and none can be used here: \`npm run gpt2 -- doctor\` shows why; --device cpu runs the ranks without GPUs`;
  }
  if (batch === 'auto') throw usageError`--batch auto is for one GPU; give --batch a number with --gpus`;
}

/** The option that `name` replaces (column `insteadOf`); undefined if there is none. */
export const otherOf = (name: OptionName) => optionRows[name].insteadOf as OptionName | undefined;

/** @throws UsageError if an option is set together with the option that it replaces */
export function refuseBoth(asked: TrainOptions): void {
  for (const name of optionNames) {
    const other = otherOf(name);
    if (!other || asked[name] === undefined || asked[other] === undefined) continue;
    const [first, second] = [name, other].map((each) => `${spell(each)} ${asked[each]}`);
    throw new UsageError(`${first} and ${second} exclude each other: give one of them`, { options: [name, other] });
  }
}

/** Checks that an option is set together with the option that it needs; a default does not count as set. @throws UsageError */
export function checkNeeds(asked: TrainOptions): void {
  for (const name of optionNames) {
    const needs = optionRows[name].needs as OptionName | undefined;
    if (needs === undefined || asked[name] === undefined || asked[needs] !== undefined) continue;
    throw new UsageError(`${spell(name)} goes with ${spell(needs)}: give both`, { options: [name, needs] });
  }
}

function checkOptions(options: DefaultedOptions, { context, isModelKnown, asked }: Facts): void {
  const { sequence, ranks, totalBatch, model, device, steps, warmup, schedule } = options;
  const together = roundTokens(options);
  if (totalBatch !== undefined && totalBatch % together !== 0) {
    const gpus = ranks > 1 ? words` x --gpus ${ranks}` : '';
    throw usageError`--total-batch ${totalBatch} is not a multiple of --batch ${together / sequence / ranks} x --seq ${sequence}${gpus} = ${together} tokens; take one that is`.with(
      { options: ['totalBatch', 'batch', 'sequence', 'ranks'] },
    );
  }
  if (model === customModel && !(options.layers && options.channels && options.heads)) {
    throw usageError`--model ${customModel} needs --layers, --channels and --heads; give all three`;
  }
  if (ranks > 1 && /^cuda:/.test(device)) {
    throw usageError`--device ${device} is one GPU; with --gpus ${ranks} give --device cuda`;
  }
  if (sequence > context) {
    throw usageError`--seq ${sequence} is over the model's context of ${context} positions; take a shorter --seq`;
  }
  if (steps !== undefined && warmup !== undefined && warmup > steps) {
    throw usageError`--warmup ${warmup} is over --steps ${steps}; take a shorter --warmup`;
  }
  const { finalLearningRateFraction: final } = options;
  if (schedule === 'constant' && final !== 1) {
    throw usageError`--final-lr-frac ${final} has no effect with --schedule constant; leave out --schedule, or take one that falls: cosine, linear, wsd, trapezoid`;
  }
  for (const name of optionNames) {
    const { onlyWith } = optionRows[name];
    if (!onlyWith || options[name] === defaultOf(optionRows[name])) continue;
    const other = onlyWith.option as OptionName;
    const [flag, value] = [spell(other), options[other]];
    const isUnknown = !isModelKnown && other in gpt2Architecture && asked[other] === undefined;
    if (isUnknown || onlyWith.values.includes(value as string)) continue;
    const what = `${spell(name)} ${options[name]} has no effect with ${flag} ${value}`;
    throw new UsageError(`${what}; give ${flag} ${onlyWith.values[0]} too`, { options: [name, other] });
  }
  for (const name of ['embeddingLearningRate', 'headLearningRate', 'muonLearningRate'] as const) {
    if (options.learningRate !== 0 || options[name] === defaultOf(optionRows[name])) continue;
    throw usageError`${spell(name)} ${options[name]} has no effect with --lr 0, whose schedule it follows; give --lr above 0`.with(
      { options: [name, 'learningRate'] },
    );
  }
}

/**
 * The default warmup in steps. For a new model: a quarter of the run, at most 500. With the default batches, which are small, the best
 * run with a warmup of 2% has a validation loss 1.0 to 3.8% over the best run with a warmup of 25% (benchmarks/defaults.md).
 */
export const defaultWarmup = (steps: number, startsFromWeights = false): number =>
  startsFromWeights ? 0 : Math.min(500, Math.floor(steps / 4));

export const sizeNames = ['layers', 'channels', 'heads'] as const;

/** The facts on which defaults depend. @param weights the model of the weights that --model names, if already known */
function factsOf(asked: TrainOptions, kind: LibraryKind, weights?: ModelConfig): Facts {
  const { model, context } = asked;
  const startsFromWeights = model !== undefined && !isNewModel(model);
  const isModelKnown = weights !== undefined || !startsFromWeights;
  const unshortened = weights?.context ?? (isModelKnown ? defaultContext : Number.POSITIVE_INFINITY);
  const { channels = presetConfig(model ?? optionTable.model.default.of({ kind }))?.channels } = asked;
  return {
    ...{ kind, context: context ?? unshortened, channels: channels ?? Number.POSITIVE_INFINITY },
    ...{ startsFromWeights, isModelKnown, asked },
  };
}

/**
 * The options of a run whose values are not the defaults: a run started with only these options has the same configuration. An
 * option whose default depends on the machine is included too, so that the options have the same effect on any machine.
 */
export function unlikeDefaults(configuration: Readonly<Record<string, unknown>>): TrainOptions {
  const asked: Record<string, unknown> = {};
  for (const name of recordedNames) {
    const value = configuration[name];
    const isDefault = (['cpu', 'cuda'] as const).every((kind) => {
      const facts = factsOf(asked, kind);
      const options = withDefaults(asked, facts);
      // Sizes count as defaults if the file of the starting weights determines them.
      if (facts.startsFromWeights && sizeNames.some((size) => size === name)) return true;
      const sizes = { context: defaultContext, ...presetConfig(options.model) };
      const warmup = defaultWarmup(Number(configuration.steps), facts.startsFromWeights);
      const known = { ...sizes, warmup, ...freezeOptions({ ...options, batch: Number(options.batch) }) };
      return JSON.stringify(value) === JSON.stringify(known[name]);
    });
    // Always include dtype, because its default depends on the CPU.
    if (value !== undefined && (name === 'dtype' || !isDefault)) asked[name] = value;
  }
  return asked;
}

/** Options in the table's order, with every default that does not depend on data. */
function withDefaults(asked: TrainOptions, facts: Facts): DefaultedOptions {
  const values = optionNames.map((name) => [name, asked[name] ?? defaultOf(optionRows[name], facts)] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined)) as DefaultedOptions;
}

/** The number of steps from --steps or --tokens; undefined: one epoch. */
export const askedSteps = ({ steps, tokens }: TrainOptions, totalBatch: number): number | undefined =>
  tokens === undefined ? steps : Math.ceil(tokens / totalBatch);

/** Tokens in one micro-batch of all ranks together. Batch `auto` counts as one sequence, because one divides every batch. */
const roundTokens = ({ batch, sequence, ranks }: Pick<DefaultedOptions, 'batch' | 'sequence' | 'ranks'>): number =>
  (batch === 'auto' ? 1 : batch) * sequence * ranks;

/** Freezes options once the batch is chosen. Sets `valTokens`, so that a resume with another --seq does not change their number. */
export function freezeOptions(options: DefaultedOptions & { readonly batch: number }): ResolvedOptions {
  const together = roundTokens(options);
  const totalBatch = options.totalBatch ?? together;
  const { sequence, valSteps, valTokens = validationSequences * sequence } = options;
  const validation = valSteps === undefined ? { valTokens } : {};
  return Object.freeze({ ...options, totalBatch, accumulation: totalBatch / together, ...validation });
}

/**
 * The model that options describe.
 * @param options in which the model's parts (norm, positions and so on) are filled in, from starting weights if there are any
 * @param weights the model of the weights that the run starts from; undefined for a new model
 * @throws UsageError as `checkConfig`
 */
export function modelOf(
  options: Omit<DefaultedOptions, 'batch'>,
  weights?: ModelConfig,
  vocabularySize: number = gpt2VocabularySize,
  endOfText: number | undefined = weights?.endOfText ?? vocabularySize - 1,
): ModelConfig {
  // `base` lacks sizes only for --model custom, which requires --layers, --channels and --heads.
  const base = weights ?? { context: defaultContext, ...presetConfig(options.model), vocabularySize };
  const { layers = base.layers!, channels = base.channels!, heads = base.heads!, context = base.context } = options;
  return checkConfig({
    ...{ layers, channels, heads, context, vocabularySize: base.vocabularySize },
    ...otherThanGpt2(options),
    ...(options.documentMask ? { endOfText } : {}),
  });
}
