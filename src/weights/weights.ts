// Finds the weights that --model names: a checkpoint, a run's newest checkpoint, another program's model, or a model of the Hugging
// Face hub, which is downloaded. formats/ reads other programs' files; checkpoint/ reads optimizer state.
import { existsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { argumentKinds, checkArguments, checkGiven } from '../base/checks/given.ts';
import { type Gpt2Error, gpt2Error, onCommandLine, usageError, words } from '../base/errors.ts';
import { shellWord } from '../base/wording.ts';
import type { FetchOptions } from '../data/datasets/download.ts';
import { type Dataset, readDatasetTokenizer } from '../data/shards/dataset-file.ts';
import { isNewModel, type ModelConfig, presetConfig, pretrainedName, trainedPositions } from '../model/config.ts';
import type { Model } from '../model/model.ts';
import { characterTokenizerName } from '../tokenizer/character-tokenizer.ts';
import { exactTokenizerOf, type Tokenizer, tokenizerOf } from '../tokenizer/tokenizer.ts';
import { isSameTokenizer, readTokenizer, tokenizerFile } from '../tokenizer/tokenizer-file.ts';
import { type DamagedCheckpoint, type FoundCheckpoint, resolveCheckpoint } from './checkpoint/directory.ts';
import { fillWeights, loadWeights, openWeights } from './checkpoint/read-checkpoint.ts';
import { weightsFile } from './files/names.ts';
import { modelPaths, openerOf } from './formats/formats.ts';
import { fetchHubModel, fromDownload, hubName } from './formats/hub.ts';
import type { StoredModel } from './formats/stored-model.ts';

/** Weights that were found and verified; `load` and `open` read them. */
export interface Weights {
  readonly path: string;
  /** OWNER/NAME@COMMIT for a model of the Hugging Face hub. */
  readonly hubName?: string;
  readonly model: ModelConfig;
  /** The tokenizer stored with the weights, or else the one that the size of the vocabulary suggests; undefined: unknown. */
  readonly tokenizer: Tokenizer | undefined;
  /** The options of the run that trained the weights; undefined for a file of another program. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly file: string;
  /** Newer checkpoints that were skipped because they are damaged. */
  readonly damaged: readonly DamagedCheckpoint[];
  /**
   * Fills a model's master weights and the weights that are rounded from them. If the model's context is shorter than the stored
   * model's, only the first positions of wpe are loaded.
   * @throws Gpt2Error if the model differs, or the weights cannot be read
   */
  load(model: Model): void;
  /** Opens the file, to read one parameter at a time. @throws Gpt2Error if it is damaged */
  open(): StoredModel;
}

/**
 * Finds and verifies weights by name: the path of a run, a checkpoint, or a model file or folder of another program, or a model
 * of the Hugging Face hub, such as openai-community/gpt2 or OWNER/NAME@REVISION, which is downloaded once.
 * @throws UsageError for the name of a model's size, such as d12, which has no weights; Gpt2Error if there are no weights of the
 * name, the weights are damaged, or the download fails; InterruptedError if `signal` is aborted
 * @example
 * const weights = await resolveWeights('runs/first');
 * weights.load(createModel(device, weights.model, { B: 1, T: 32, purpose: 'inference' }));
 */
export async function resolveWeights(path: string, options: FetchOptions = {}): Promise<Weights> {
  checkArguments({ path });
  checkGiven(options, {}, { notice: 'function', onProgress: 'function', signal: argumentKinds.signal });
  const name = hubName(path);
  if (name) {
    const { folder, name: hubName } = await fetchHubModel(name, options);
    return { ...fromDownload(folder, () => storedWeights(folder, openerOf(folder)!)), hubName };
  }
  if (presetConfig(path) && !existsSync(path)) {
    const pretrained = pretrainedName(path);
    throw usageError`${onCommandLine('--model ')}${path} is a size of new models and has no weights; ${pretrained ? `the pretrained GPT-2 of this size is ${onCommandLine('--model ')}${pretrained}` : 'name a trained model'}`;
  }
  const open = openerOf(path);
  if (open) return storedWeights(path, open);
  const { damaged, ...checkpoint } = resolveCheckpoint(path, modelPaths);
  return { ...checkpointWeights(checkpoint), damaged };
}

/** The number of positions that were trained; all positions if the run began with other weights, whose training is unknown. */
export function positionsOf({ model, configuration = {} }: Weights): number {
  const { model: name, sequence } = configuration;
  return isNewModel(name) && typeof sequence === 'number' ? trainedPositions(model, sequence) : model.context;
}

export function checkpointWeights(checkpoint: FoundCheckpoint): Weights {
  const { path, manifest } = checkpoint;
  const { model, configuration } = manifest;
  return {
    ...{ path, model, configuration, file: join(path, weightsFile), damaged: [] },
    tokenizer: checkpointTokenizer(checkpoint) ?? tokenizerOf(model),
    load: (into) => loadWeights(checkpoint, into),
    open: () => ({ model, tokenizer: checkpointTokenizer(checkpoint), ...openWeights(path, model) }),
  };
}

/** The tokenizer in a checkpoint; undefined if the model uses a built-in one. @throws Gpt2Error */
const checkpointTokenizer = ({ path, manifest }: FoundCheckpoint): Tokenizer | undefined =>
  manifest.files.some(({ name }) => name === tokenizerFile) ? readTokenizer(join(path, tokenizerFile)) : undefined;

function storedWeights(path: string, open: () => StoredModel): Weights {
  using stored = open();
  return {
    path,
    model: stored.model,
    tokenizer: stored.tokenizer ?? tokenizerOf(stored.model),
    file: statSync(path).isFile() ? path : join(path, weightsFile),
    damaged: [],
    open,
    load(model) {
      using again = open();
      fillWeights(path, again, model);
    },
  };
}

/** Refuses data whose tokenizer is not the weights'. @param dataset undefined: the data has GPT-2's ids @throws Gpt2Error */
export function refuseOtherTokenizer(weights: Weights, folder: string, dataset: Dataset | undefined): void {
  const { path, model } = weights;
  const refusal = (what: string, expected: Tokenizer | undefined): Gpt2Error => {
    const tokenizer = expected?.file ? shellWord(path) : expected?.name;
    // The suggested command names a new folder with --out, because the unsuitable data set may be in the default folder.
    const out = shellWord(`${folder.replace(/\/+$/, '')}-${expected?.name}`);
    const command = expected && words`: \`npm run prepro -- text FILE --tokenizer ${tokenizer} --out ${out}\``;
    const limit =
      expected?.name === characterTokenizerName ? ', of a text that has no other characters than the model' : '';
    const { data } = weights.configuration ?? {};
    const known = typeof data === 'string' && data !== folder && existsSync(data);
    const trained = known ? words`name the run's data with --data ${shellWord(data)}, or ` : '';
    return gpt2Error`${folder} ${what}; ${trained}prepare the data with the model's tokenizer${command ?? ''}${limit}, or take another model`;
  };
  if (!dataset) {
    if (weights.tokenizer?.file === undefined) return;
    throw refusal(`has GPT-2's tokens, ${path} another tokenizer (${weights.tokenizer.name})`, weights.tokenizer);
  }
  // A tokenizer without a file may be only a guess from the size of the vocabulary.
  const expected = weights.tokenizer?.file === undefined ? exactTokenizerOf(model) : weights.tokenizer;
  const data = readDatasetTokenizer(folder, dataset);
  const [ours, theirs] = [model.vocabularySize, dataset.vocabularySize];
  const areKnown = expected && (expected.file ?? data.file) !== undefined;
  const fits = ours === theirs || (data === weights.tokenizer && theirs === data.vocabularySize);
  if (areKnown ? isSameTokenizer(expected, data) : fits) return;
  const what =
    ours === theirs
      ? `was made with another tokenizer (${dataset.tokenizer}) than that of ${path}`
      : `has a vocabulary of ${theirs} tokens (${dataset.tokenizer}), ${path} one of ${ours}`;
  throw refusal(what, expected);
}
