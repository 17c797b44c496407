// What a run's options come to: those of a config file or of the run that is resumed, the data's shards, the model, and with
// --batch auto the batch. Nothing of it takes device memory; run.ts does, and plan.ts says how much it would be.
import { existsSync } from 'node:fs';
import { type FoundCheckpoint, newestManifest } from '../checkpoint/directory.ts';
import { checkpointWeights, refuseOtherVocabulary, resolveWeights, type Weights } from '../checkpoint/weights.ts';
import { Gpt2Error, UsageError } from '../errors.ts';
import { modelPaths } from '../formats/stored-model.ts';
import { checkConfig, customModel, type ModelConfig, presetConfig, presetNames } from '../model/config.ts';
import type { DeviceOptions } from '../native/device.ts';
import { selectDevice, selectKind } from '../native/select-device.ts';
import { type Place, threadsOf } from '../ranks/place.ts';
import { refuseAccidentalCpu, refuseAutoBatch } from '../ranks/refuse.ts';
import { checkpointsFolder, configPath } from '../runs/paths.ts';
import { findShards, readDataset } from '../shards/find.ts';
import { tokenizerOf } from '../tokenizer/tokenizer.ts';
import { chooseBatch } from './choose-batch.ts';
import type { TrainOptions } from './option-table.ts';
import { checkOptions, readOptionsFile, readRunOptions, type SettledOptions } from './options.ts';
import { optionsBefore } from './resumable.ts';
import { type Resumed, resumeOptions } from './resume.ts';

/** What the options come to, before the data is opened and the device is taken. */
export interface Settled {
  readonly options: SettledOptions;
  readonly deviceOptions: DeviceOptions;
  readonly config: ModelConfig;
  /** What a resumed run goes on from. */
  readonly checkpoint: FoundCheckpoint | undefined;
  /** What the run starts with; undefined: weights are drawn. */
  readonly start: Weights | undefined;
  readonly trainShards: string[];
  readonly valShards: string[];
}

/**
 * @param place of this process among ranks; undefined: it trains alone, or only looks
 * @throws UsageError or Gpt2Error for what cannot be
 */
export function settle(given: TrainOptions, notice: (text: string) => void, place?: Place): Settled {
  const { options: merged, checkpoint } = mergeOptions(place ? withRanks(given, place) : given, notice);
  const target = selectDevice(merged.device ?? 'auto', place?.gpu);
  let options = checkOptions(merged, target.kind);
  refuseAccidentalCpu(options, target.kind);
  const { dataset, trainShards, valShards } = openData(options.data);
  const start = checkpoint ? checkpointWeights(checkpoint) : startingPoint(options.model);
  const longest = start?.model.context;
  if (start) options = checkOptions(merged, target.kind, longest);
  const config = modelConfig(options, start, dataset?.vocabularySize);
  if (start) refuseOtherVocabulary(start, options.data, dataset);
  if (start && !checkpoint) tellFineTuning(start, merged, options, notice);
  if (options.sequence > config.context) {
    throw new UsageError(
      `--seq ${options.sequence} is over the model's context of ${config.context} positions; take a shorter --seq`,
    );
  }
  const deviceOptions = { ...target, dtype: options.dtype, threads: threadsOf(options.threads, place) };
  if (merged.batch === 'auto') {
    refuseAutoBatch(merged.batch, options.ranks);
    const { sequence: T, totalBatch, maxMemory, ranks } = options;
    const rows = merged.totalBatch === undefined ? undefined : totalBatch / T / ranks;
    const samples = takesSamples(options.sampleEvery, config);
    const shares = sharesOf(options);
    const choice = chooseBatch(deviceOptions, config, {
      ...{ T, rows, recompute: merged.recompute, samples, maxMemory, shares },
    });
    options = checkOptions({ ...merged, ...choice }, target.kind, longest);
    // What a step is depends on the memory at hand then.
    const step = rows === undefined ? `; a step has ${options.totalBatch} tokens, as --total-batch does not say` : '';
    notice(`--batch auto is --batch ${options.batch} --recompute ${options.recompute} here${step}`);
  }
  const accumulates = options.accumulation > 1;
  return {
    options,
    deviceOptions: { ...deviceOptions, accumulates },
    config,
    checkpoint,
    start,
    trainShards,
    valShards,
  };
}

/** How many parts a rank's optimizer state is one of. */
export const sharesOf = ({ ranks, zero }: Pick<SettledOptions, 'ranks' | 'zero'>): number => (zero === 1 ? ranks : 1);

/**
 * The number of ranks for a run: as given, else as in the run that is resumed. A file of options has been read by then.
 * @throws UsageError if the options are wrong in themselves, before any process is started
 */
export function wantedRanks(given: TrainOptions): number {
  const now = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  const options: TrainOptions = { ...optionsOfRun(given), ...now };
  const { ranks = 1 } = options;
  if (ranks > 1) {
    const kind = selectKind(options.device ?? 'auto');
    refuseAccidentalCpu(checkOptions(options, kind), kind);
    refuseAutoBatch(options.batch, ranks);
  }
  return ranks;
}

/** The options of a run to resume: its newest checkpoint's, or config.json's if it has none. */
function optionsOfRun({ resume, out }: TrainOptions): TrainOptions {
  if (!resume || out === undefined) return {};
  const newest = newestManifest(checkpointsFolder(out));
  if (newest) return optionsBefore(newest);
  return existsSync(configPath(out)) ? readRunOptions(configPath(out)) : {};
}

/** Options with those of --config beneath them. */
export const withOptionsFile = ({ config, ...given }: TrainOptions): TrainOptions =>
  config === undefined ? given : { ...readOptionsFile(config), ...given };

function withRanks(given: TrainOptions, { ranks }: Place): TrainOptions {
  if (given.ranks === undefined || given.ranks === ranks) return { ...given, ranks };
  throw new UsageError(`--gpus ${given.ranks}, but ${ranks} ranks were started`);
}

function mergeOptions(given: TrainOptions, notice: (text: string) => void): Resumed {
  const options = withOptionsFile(given);
  if (!options.resume) return { options, checkpoint: undefined };
  // What --out and the rest mean together is checked before the checkpoint is looked for.
  checkOptions(options, 'cpu');
  return resumeOptions(options, notice);
}

/** The weights that --model names, or undefined for a preset's name. */
function startingPoint(model: string): Weights | undefined {
  if (model === customModel || presetConfig(model)) return undefined;
  if (!existsSync(model)) {
    throw new UsageError(
      `--model takes ${presetNames.join(', ')}, ${customModel}, or ${modelPaths}; there is no ${model}`,
    );
  }
  return resolveWeights(model);
}

/** What is taken from the weights rather than asked for. */
function tellFineTuning(
  { path, damaged }: Weights,
  { learningRate }: TrainOptions,
  settled: SettledOptions,
  notice: (text: string) => void,
): void {
  for (const { reason } of damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  const rate = `at the learning rate of a fine-tune, ${settled.learningRate}; --lr sets another`;
  notice(`starting from ${path}${learningRate === undefined ? `, ${rate}` : ''}`);
}

function modelConfig(
  options: SettledOptions,
  start: Weights | undefined,
  vocabularySize: number | undefined,
): ModelConfig {
  const stored = start?.model;
  // A custom model has every size given but the context.
  const base = stored ?? presetConfig(options.model) ?? presetConfig('d12')!;
  const { layers, channels, heads, context } = { ...base, ...definedSizes(options) };
  if (start && context > start.model.context) {
    throw new Gpt2Error(
      `--context ${context} is over the ${start.model.context} positions of ${start.path}: a context can be shortened, not lengthened`,
    );
  }
  return checkConfig({
    layers,
    channels,
    heads,
    context,
    vocabularySize: stored?.vocabularySize ?? vocabularySize ?? base.vocabularySize,
  });
}

/** The ids of a vocabulary that is no tokenizer's are nobody's text. */
export const takesSamples = (sampleEvery: number, config: ModelConfig): boolean =>
  sampleEvery > 0 && tokenizerOf(config) !== undefined;

const definedSizes = ({ layers, channels, heads, context }: SettledOptions): Partial<ModelConfig> =>
  Object.fromEntries(Object.entries({ layers, channels, heads, context }).filter(([, size]) => size !== undefined));

function openData(folder: string) {
  return {
    dataset: readDataset(folder),
    trainShards: findShards(folder, 'train'),
    valShards: findShards(folder, 'val'),
  };
}
