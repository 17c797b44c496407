// Finds the tokenizer that --tokenizer names for a new data set. The tokenizer "char" is made from the characters of the text.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gpt2Error, UsageError } from '../base/errors.ts';
import { characterTokenizerName, createCharacterTokenizer } from '../tokenizer/character-tokenizer.ts';
import { readFolderTokenizer } from '../tokenizer/folder-tokenizer.ts';
import { describeLoss, type Loss, lostShare } from '../tokenizer/loss.ts';
import { builtInNamed, builtInTokenizers, type Tokenizer } from '../tokenizer/tokenizer.ts';
import { mostIds, readTokenizer, tokenizerFile } from '../tokenizer/tokenizer-file.ts';
import { datasetFile, readDatasetTokenizer } from './shards/dataset-file.ts';

/** The names that --tokenizer takes; it also takes the path of a file or folder. */
export const tokenizerNames: readonly string[] = [...builtInTokenizers.map(({ name }) => name), characterTokenizerName];

/** Description, for messages, of the values that --tokenizer takes. */
export const tokenizerKinds = `${tokenizerNames.join(', ')}, a tokenizer.json or a folder that has one`;

/**
 * The tokenizer with this name, or in the file or folder at this path; undefined for "char", whose ids depend on the text.
 * @throws UsageError for an unknown name; Gpt2Error if the file cannot be used
 */
export function chooseTokenizer(name: string): Tokenizer | undefined {
  if (name === characterTokenizerName) return undefined;
  const builtIn = builtInNamed(name);
  if (builtIn) return builtIn;
  if (existsSync(name)) return statSync(name).isDirectory() ? tokenizerOfFolder(name) : readTokenizer(name);
  if (/[/\\]|\.json$/.test(name)) {
    throw gpt2Error`${name} does not exist; --tokenizer takes ${tokenizerKinds}`;
  }
  throw UsageError.takes('--tokenizer', tokenizerKinds, name);
}

/** The tokenizer in a folder: a data set, a checkpoint, a run, or another program's model. @throws Gpt2Error if there is none */
function tokenizerOfFolder(folder: string): Tokenizer {
  for (const each of [folder, ...checkpointsIn(folder)]) {
    const found = readFolderTokenizer(each, (what) => {
      throw gpt2Error`the tokenizer of ${each} cannot be used: ${what}; give another --tokenizer`;
    });
    if (found) return found;
  }
  if (existsSync(join(folder, datasetFile))) return readDatasetTokenizer(folder);
  throw gpt2Error`${folder} has no ${tokenizerFile}; --tokenizer takes ${tokenizerKinds}, such as a run`;
}

/** Options of every function that makes a data set. */
export interface LossOptions {
  /** Whether to replace another data set in the folder. */
  readonly overwrite?: boolean | undefined;
  /** Whether to make a data set even if its tokenizer loses more than a thousandth of the text's characters. */
  readonly lossy?: boolean | undefined;
  readonly notice?: ((text: string) => void) | undefined;
}

/** The largest share of a text's characters that a tokenizer may lose without --lossy. */
const mostLost = 0.001;

/** Reports the characters that a tokenizer loses. @throws Gpt2Error if they are over a thousandth of the text, without `lossy` */
export function refuseLoss(loss: Loss, { lossy, notice }: LossOptions): void {
  if (loss.lost.size === 0) return;
  const lost = `the tokenizer loses ${describeLoss(loss)}`;
  if (lossy || lostShare(loss) <= mostLost) notice?.(`${lost}; bits per byte will not be computed`);
  else throw gpt2Error`${lost}: take another --tokenizer, or accept the loss with --lossy`;
}

/** Paths of the checkpoints in a run folder, the newest first. */
function checkpointsIn(folder: string): string[] {
  const inRun = join(folder, 'checkpoints');
  const names = existsSync(inRun) ? readdirSync(inRun).filter((name) => /^step-\d+$/.test(name)) : [];
  const newestFirst = names.sort().reverse();
  return newestFirst.map((name) => join(inRun, name));
}

/** Makes the tokenizer "char" of these code points. @throws Gpt2Error if there are more than the ids of a shard, 65,536 */
export function tokenizerOfCharacters(characters: ReadonlySet<number>): Tokenizer {
  if (characters.size <= mostIds) return createCharacterTokenizer(characters);
  throw gpt2Error`the text has ${characters.size} different characters, more than the ${mostIds} ids of a token file: give another --tokenizer`;
}
