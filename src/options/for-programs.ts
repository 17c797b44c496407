// Functions that commands use too, as programs call them: errors and notices name options, not the flags of the command line.
// train/for-programs.ts has those of training.
import { resolveWeights as resolve, type Weights } from '../checkpoint/weights.ts';
import { type PrepareOptions, prepareDataset as prepare } from '../datasets/prepare.ts';
import type { Prepared } from '../datasets/standing.ts';
import type { Input } from '../datasets/text/format.ts';
import { prepareText as prepareTexts, type TextOptions } from '../datasets/text/prepare-text.ts';
import { type ExportOptions, exportModel as write } from '../formats/export.ts';
import type { FetchOptions } from '../formats/hub.ts';
import { findShards as find, type Role } from '../shards/find.ts';
import { forPrograms, withoutFlag, worded, wordedNotice } from './wording.ts';

const ofModel = (text: string) => forPrograms(withoutFlag(text, '--model'));
const ofData = (text: string) => forPrograms(withoutFlag(text, '--data'));

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
 * Writes a model in another program's format and returns the path of its checkpoint or file.
 * @throws UsageError for a dtype that the format lacks; Gpt2Error if the model cannot be read or `out` exists
 * @example await exportModel({ model: 'runs/first', format: 'gguf', out: 'model.gguf' });
 */
export async function exportModel(options: ExportOptions): Promise<string> {
  return worded(() => write(wordedNotice(options)));
}
