// Functions that commands use too, as programs call them: errors and notices name options, not the flags of the command line.
// evaluate/ and train/ have files of this name for theirs.
import { type Loader, type LoaderOptions, openLoader as open } from '../batches/loader.ts';
import { resolveWeights as resolve, type Weights } from '../checkpoint/weights.ts';
import { type PrepareOptions, prepareDataset as prepare } from '../datasets/prepare.ts';
import type { Prepared } from '../datasets/standing.ts';
import type { Input } from '../datasets/text/format.ts';
import { prepareText as prepareTexts, type TextOptions } from '../datasets/text/prepare-text.ts';
import { type ExportOptions, exportModel as write } from '../formats/export.ts';
import type { FetchOptions } from '../formats/hub.ts';
import type { ActivationSizes } from '../model/activations.ts';
import type { ModelConfig } from '../model/config.ts';
import { createModel as create, type Model } from '../model/model.ts';
import type { Sharding } from '../model/sharded-parameters.ts';
import type { Device } from '../native/device.ts';
import { type DeviceChoice, selectDevice as select } from '../native/select-device.ts';
import { findShards as find, type Role } from '../shards/find.ts';
import { forPrograms, withoutFlag, worded, wordedNotice } from './wording.ts';

const ofModel = (text: string) => forPrograms(withoutFlag(text, '--model'));
const ofData = (text: string) => forPrograms(withoutFlag(text, '--data'));

/**
 * The device that a name stands for, as the `kind` and `index` of `Device.open`.
 * @param choice "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N"
 * @param index the GPU if `choice` names none
 * @throws UsageError for any other name
 * @example using device = Device.open({ ...selectDevice('auto'), threads: 2 });
 */
export function selectDevice(choice: string, index = 0): DeviceChoice {
  return worded(() => select(choice, index));
}

/**
 * Allocates a model whose weights are zero, for batches of up to B x T tokens. It closes with its device.
 * @throws UsageError for sizes that make no model; NativeError if the device has too little memory
 * @example
 * const config = presetConfig('d6')!;
 * const model = createModel(device, config, { B: 4, T: 64, purpose: 'training' });
 * initializeWeights(model, 42);
 */
export function createModel(device: Device, config: ModelConfig, sizes: ActivationSizes, sharding?: Sharding): Model {
  return worded(() => create(device, config, sizes, sharding));
}

/**
 * Opens shards, checks every token, and compares their sha256 with dataset.json in their folder.
 * @throws Gpt2Error for a file that is not a shard or is damaged, a token outside the vocabulary, or a shard that is too short
 * for one batch
 * @example
 * const shards = findShards('data/tinyshakespeare', 'train');
 * using loader = openLoader({ shards, batch: 4, sequence: 64, order: 'sequence', seed: 42, vocabularySize: 50257 });
 * const { inputs, targets } = loader.next(); // Int32Array [4,64] each
 */
export function openLoader(options: LoaderOptions): Loader {
  return worded(() => open(options));
}

/**
 * Makes a data set's shards, unless they exist and are intact.
 * @throws UsageError for an unknown name, or a `from` that it does not take; Gpt2Error if the source cannot be read or
 * downloaded, the folder cannot be written, or it holds another data set and `overwrite` is not set
 * @example const { folder, dataset } = await prepareDataset('own-source', { out: 'data/own-source' });
 */
export async function prepareDataset(name: string, options: PrepareOptions = {}): Promise<Prepared> {
  return worded(() => prepare(name, wordedNotice(options)));
}

/**
 * Makes the shards of a text, unless they exist and are intact.
 * @throws UsageError for an invalid option; Gpt2Error for a file that cannot be read or has another format, and for a folder
 * that holds another data set unless `overwrite` is set
 * @example
 * const division = { prefix: 'books', shardTokens: 100_000_000, validation: 0.1 } as const;
 * await prepareText(findInputs(['books']), { out: 'data/books', format: { kind: 'text' }, division });
 */
export async function prepareText(inputs: readonly Input[], options: TextOptions): Promise<Prepared> {
  return worded(() => prepareTexts(inputs, wordedNotice(options)));
}

/**
 * Paths of a folder's shards of one role, sorted bytewise: .bin files with "train" or "val" in their name.
 * @throws Gpt2Error if the folder is missing or unfinished, has no such shard, or a name has both roles
 * @example const shards = findShards('data/tinyshakespeare', 'train');
 */
export function findShards(folder: string, role: Role): string[] {
  return worded(() => find(folder, role), ofData);
}

/**
 * Finds and verifies the weights that a text names: the path of a run, a checkpoint, or a model file or folder of another program,
 * or a model of the Hugging Face hub, such as openai-community/gpt2 or OWNER/NAME@REVISION, which is downloaded once.
 * @throws UsageError for a size of new models, such as gpt2; Gpt2Error if the text names no weights, or damaged ones, or the
 * download fails; InterruptedError after `signal`
 * @example
 * const weights = await resolveWeights('runs/first');
 * weights.load(createModel(device, weights.model, { B: 1, T: 32, purpose: 'inference' }));
 */
export async function resolveWeights(path: string, options: FetchOptions = {}): Promise<Weights> {
  return worded(() => resolve(path, wordedNotice(options)), ofModel);
}

/**
 * Writes a model in another program's format and returns the path of what it wrote, `out`.
 * @throws UsageError for a dtype that the format lacks; Gpt2Error if the model cannot be read or `out` exists
 * @example await exportModel({ model: 'runs/first', format: 'gguf', out: 'model.gguf' });
 */
export async function exportModel(options: ExportOptions): Promise<string> {
  await worded(() => write(wordedNotice(options)));
  return options.out;
}
