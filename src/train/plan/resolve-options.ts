// Resolves a run's options in stages: read, merge with the resumed run, find the model, fill in defaults, check, choose the batch,
// freeze. Only --batch auto opens the device, for a moment.
import { existsSync } from 'node:fs';
import { gpt2Error, UsageError, usageError, words } from '../../base/errors.ts';
import type { FetchOptions } from '../../data/datasets/download.ts';
import { findShards } from '../../data/datasets/find-shards.ts';
import { readDataset, readDatasetTokenizer } from '../../data/shards/dataset-file.ts';
import { readHellaswag } from '../../inference/evaluate/hellaswag.ts';
import { architectureNames, architectureOf } from '../../model/architecture.ts';
import {
  checkDtype,
  customModel,
  gpt2VocabularySize,
  type ModelConfig,
  presetConfig,
  presetNames,
  pretrainedName,
  trainedPositions,
} from '../../model/config.ts';
import { windowsOf } from '../../model/mask.ts';
import type { DeviceOptions } from '../../native/device.ts';
import { type DeviceChoice, selectDevice, selectKind } from '../../native/select-device.ts';
import { loadFolders } from '../../ops/kernels/card-hash.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { chooseOptimizer } from '../../optimizer/choose.ts';
import { completeOptions, freezeOptions, modelOf, refuseRanks, sizeNames } from '../../options/complete-options.ts';
import {
  type DefaultedOptions,
  optionTable,
  type ResolvedOptions,
  spell,
  type TrainOptions,
} from '../../options/table.ts';
import { type Place, threadsOf } from '../../ranks/place.ts';
import { refuseUnsaved } from '../../runs/existing.ts';
import { type Tokenizer, tokenizerOf } from '../../tokenizer/tokenizer.ts';
import { modelPaths } from '../../weights/formats/formats.ts';
import { hubName } from '../../weights/formats/hub.ts';
import { checkpointWeights, refuseOtherTokenizer, resolveWeights, type Weights } from '../../weights/weights.ts';
import { chooseBatch, sizesOf } from './plan-memory.ts';
import type { ProgramParts } from './program-parts.ts';
import { mergeRun, mergeUnverified, type Resumed } from './resume.ts';

/** A run's options, and the model and files that the options name, before data and device are opened. */
export interface Resolved {
  readonly options: ResolvedOptions;
  readonly deviceOptions: DeviceOptions;
  readonly config: ModelConfig;
  readonly parts: ProgramParts;
  readonly optimizer: OptimizerChoice;
  /** The checkpoint from which a resumed run continues. */
  readonly checkpoint: Resumed['checkpoint'];
  /** Notices about options whose values differ from the values in the resumed run. */
  readonly changes: readonly string[];
  /** Undefined if unknown; tokens then cannot be decoded to text. */
  readonly tokenizer: Tokenizer | undefined;
  /** Weights that the run starts from; undefined for random weights. */
  readonly start: Weights | undefined;
  readonly trainShards: string[];
  readonly valShards: string[];
}

/**
 * Resolves the options of a run, and finds the files that they name.
 * @param asked options merged from flags, --config, --preset and --recipe
 * @param place this process's place among ranks; undefined: the process trains alone, or only plans
 * @param parts functions and objects that a program passes in place of options
 * @throws UsageError or Gpt2Error; InterruptedError if `signal` stops the download of --model
 */
export async function resolveOptions(
  asked: TrainOptions,
  { notice = () => {}, ...fetching }: FetchOptions,
  place?: Place,
  parts: ProgramParts = {},
): Promise<Resolved> {
  const ofJob = place ? withRanks(asked, place) : asked;
  const { options: merged, checkpoint, changes = [] } = mergeRun(ofJob, notice, Object.keys(parts));
  const target = targetOf(merged, place);
  const start = checkpoint
    ? checkpointWeights(checkpoint)
    : await startingWeights(merged.model, { notice, ...fetching });
  const { options, config, tokenizer, trainShards, valShards } = findFiles(merged, target.kind, start, parts);
  const optimizer = parts.optimizer ?? chooseOptimizer(options);
  if (start && !checkpoint) announceStart(start, merged, options, notice);
  const device = { ...target, dtype: options.dtype, threads: threadsOf(options.threads, place) };
  const resolved = freezeOptions({
    ...options,
    ...(await batchOf(merged, options, { device, config, tokenizer, optimizer })),
  });
  if (options.batch === 'auto') announceBatch(merged, resolved, notice);
  announceWindow(config, options.sequence, notice);
  if (!start && merged.context !== undefined && trainedPositions(config, options.sequence) < merged.context) {
    notice(words`--seq ${options.sequence} trains only the first positions of --context ${merged.context}`);
  }
  const deviceOptions = { ...device, accumulates: resolved.accumulation > 1 };
  const files = { tokenizer, checkpoint, changes, start, trainShards, valShards };
  return { options: resolved, deviceOptions, config, parts, optimizer, ...files };
}

/** The device that --device names. With --for, always a GPU, which this machine need not have. */
function targetOf({ device = optionTable.device.default, for: gpu }: TrainOptions, place?: Place): DeviceChoice {
  if (gpu === undefined) return selectDevice(device, place?.gpu);
  if (device === 'cpu') throw usageError`--for ${gpu} plans for a GPU, --device cpu does not: leave out one of them`;
  return { kind: 'cuda', index: 0 };
}

function findFiles(
  merged: TrainOptions,
  kind: DeviceChoice['kind'],
  start: Weights | undefined,
  { batches, validation }: ProgramParts = {},
) {
  const model = start?.hubName ?? merged.model;
  const options = completeOptions({ ...merged, model }, kind, start?.model);
  refuseRanks(options, kind);
  const { data } = options;
  const dataset = readDataset(data);
  const trainShards = batches ? [] : findShards(data, 'train');
  // A run on a program's batches is validated only on the program's `validation` batches, never on shards.
  const valShards = batches || validation || options.valEvery === 0 ? [] : findShards(data, 'val');
  if (start) refuseOtherParts(start, merged);
  const { vocabularySize = gpt2VocabularySize } = start?.model ?? dataset ?? {};
  // Take the tokenizer from the starting weights' file, else from the data's file, else the built-in tokenizer of this vocabulary size.
  const named = [start?.tokenizer, dataset && readDatasetTokenizer(data, dataset)];
  const tokenizer = named.find((each) => each?.file !== undefined) ?? tokenizerOf({ vocabularySize });
  const config = modelConfig(options, start, vocabularySize, tokenizer);
  checkDtype(config, options.dtype);
  if (start) refuseOtherTokenizer(start, data, dataset);
  return { options, config, tokenizer, trainShards, valShards };
}

/**
 * Checks the options of several runs, and the files that they name, before the first run starts. Downloads models of the Hugging
 * Face hub, but opens no device, and reads neither shards nor the checkpoints of resumed runs.
 * @returns the option `model` of each run; for a hub model with the commit, so that later runs start from the same weights
 * @throws as `resolveOptions`
 */
export async function checkRuns(all: readonly TrainOptions[], fetching: FetchOptions): Promise<(string | undefined)[]> {
  const models: (string | undefined)[] = [];
  const weights = new Map<string | undefined, Weights | undefined>();
  for (const asked of all) {
    const { options: merged, checkpoint } = mergeUnverified(asked);
    const { model, device } = merged;
    if (!checkpoint && !weights.has(model)) weights.set(model, await startingWeights(model, fetching));
    const start = checkpoint ? checkpointWeights(checkpoint) : weights.get(model);
    const { options, config, tokenizer } = findFiles(merged, selectKind(device ?? optionTable.device.default), start);
    const { hellaswagEvery, hellaswag, sequence } = options;
    const { vocabularySize } = config;
    if (hellaswagEvery > 0) readHellaswag(hellaswag, { sequence, vocabularySize, tokenizer });
    models.push(start?.hubName ?? asked.model);
  }
  return models;
}

/**
 * The number of ranks of a run, from its options or from the run that it resumes.
 * @param asked options merged from flags, --config, --preset and --recipe
 * @throws UsageError for wrong options, before any process is started
 */
export function wantedRanks(asked: TrainOptions): number {
  const { options: merged } = mergeUnverified(asked);
  const { ranks = optionTable.ranks.default } = merged;
  if (ranks === 1) return ranks;
  const kind = selectKind(merged.device ?? optionTable.device.default);
  refuseRanks(completeOptions(merged, kind), kind);
  return ranks;
}

function withRanks(asked: TrainOptions, { ranks }: Place): TrainOptions {
  if (asked.ranks === undefined || asked.ranks === ranks) return { ...asked, ranks };
  throw usageError`--gpus ${asked.ranks}, but ${ranks} ranks were started`;
}

/** The weights that --model names, or undefined for a new model. */
async function startingWeights(model: string | undefined, fetching: FetchOptions): Promise<Weights | undefined> {
  if (model === undefined || model === customModel) return undefined;
  if (presetConfig(model)) {
    const pretrained = pretrainedName(model);
    if (pretrained?.endsWith(`/${model}`)) {
      fetching.notice?.(
        words`--model ${model} is a new model of that size; the pretrained one is --model ${pretrained}`,
      );
    }
    return undefined;
  }
  if (!existsSync(model) && !hubName(model)) {
    throw usageError`--model takes ${presetNames.join(', ')}, ${customModel}, or ${modelPaths}; ${model} does not exist`;
  }
  refuseUnsaved(model);
  return resolveWeights(model, fetching);
}

function modelConfig(
  options: DefaultedOptions,
  start: Weights | undefined,
  vocabularySize: number,
  tokenizer: Tokenizer | undefined,
): ModelConfig {
  const { context, documentMask } = options;
  if (documentMask && tokenizer?.endOfText === undefined) {
    throw gpt2Error`--document-mask needs a token that begins each document, and the tokenizer of ${options.data} (${tokenizer?.name ?? 'unknown'}) has no end of text; give --no-document-mask, or prepare the data with --tokenizer gpt2 or bytes`;
  }
  if (start && context !== undefined && context > start.model.context) {
    throw gpt2Error`--context ${context} is over the ${start.model.context} positions of ${start.path}: a context can be shortened, not lengthened`;
  }
  return modelOf(options, start?.model, vocabularySize, tokenizer?.endOfText);
}

function refuseOtherParts({ path, model }: Weights, asked: TrainOptions): void {
  const trained = { ...model, ...architectureOf(model) };
  const other = [...architectureNames, ...sizeNames].find(
    (name) => asked[name] !== undefined && asked[name] !== trained[name],
  );
  if (other === undefined) return;
  const flag = spell(other);
  throw new UsageError(
    `${flag} ${asked[other]}, but ${path} was trained with ${flag} ${trained[other] ?? 'none'}; leave out ${flag}`,
    { options: [other] },
  );
}

/** The number of sequences in a micro-batch, from --batch. For --batch auto, chooses the number, and --recompute if unset. */
async function batchOf(
  merged: TrainOptions,
  { batch, ...options }: DefaultedOptions,
  { device, config, ...found }: Pick<Resolved, 'config' | 'tokenizer' | 'optimizer'> & { device: DeviceOptions },
): Promise<{ batch: number } | ReturnType<typeof chooseBatch>> {
  if (batch !== 'auto') return { batch };
  const cards = await loadFolders(options.kernels);
  const sizes = sizesOf({ ...options, recompute: merged.recompute }, { ...found, cards });
  return chooseBatch(device, config, { ...sizes, gpu: options.for });
}

function announceStart(
  { path, damaged }: Weights,
  merged: TrainOptions,
  { learningRate, optimizer, muonLearningRate }: DefaultedOptions,
  notice: (text: string) => void,
): void {
  for (const { reason } of damaged) notice(`skipped a checkpoint: ${reason}`);
  const rate = words`at the learning rate of a fine-tune, ${learningRate}; --lr sets another`;
  notice(`starting from ${path}${merged.learningRate === undefined ? `, ${rate}` : ''}`);
  if (optimizer === 'muon' && merged.muonLearningRate === undefined) {
    notice(words`Muon's learning rate is ${muonLearningRate}, that of a new model; --muon-lr sets another`);
  }
}

/** Prints a notice if --document-mask is set with learned positions, which no document restarts, or if no sequence exceeds --window. */
function announceWindow(config: ModelConfig, sequence: number, notice: (text: string) => void): void {
  if (config.documentMask && architectureOf(config).positions === 'learned') {
    notice(words`--document-mask: learned positions go on from one document to the next; --positions rotary has none`);
  }
  const { long = 0, short = 0 } = windowsOf(config);
  if (long < sequence) return;
  const where = short < sequence ? 'its layers attend' : 'attention is';
  notice(words`--window ${long} is not under --seq ${sequence}: ${where} as without it`);
}

/** Prints the choice of --batch auto. Without --total-batch, also prints the tokens of a step, because they depend on the choice. */
function announceBatch(
  merged: TrainOptions,
  { batch, recompute, totalBatch }: ResolvedOptions,
  notice: (text: string) => void,
): void {
  const step =
    merged.totalBatch === undefined ? words`; a step has ${totalBatch} tokens: --total-batch is not given` : '';
  notice(words`--batch auto is --batch ${batch} --recompute ${recompute} here${step}`);
}
