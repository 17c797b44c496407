// Lists the data sets that prepro makes, and for each default folder the command that makes it.
import { join } from 'node:path';
import { gpt2 } from '../../tokenizer/tokenizer.ts';
import { tokenizerNames } from '../choose-tokenizer.ts';
import type { Corpus, DatasetSource } from './dataset.ts';
import { fineweb } from './fineweb.ts';
import { mobyDick } from './moby-dick.ts';
import { ownSource } from './own-source.ts';
import { tinyshakespeare } from './tinyshakespeare.ts';
import { tinystories } from './tinystories.ts';

export const datasets: readonly DatasetSource[] = [tinyshakespeare, mobyDick, ownSource];
export const datasetNames: readonly string[] = datasets.map(({ name }) => name);
export const corpora: readonly Corpus[] = [tinystories, fineweb];

/** The default folder of a data set made with this tokenizer, such as data/tinyshakespeare-char. */
export const defaultFolder = (name: string, tokenizer: string): string =>
  join('data', tokenizer === gpt2.name ? name : `${name}-${tokenizer}`);

/** Map from each default folder of prepro to the command that makes it. */
export const preproOf: Readonly<Record<string, string>> = Object.fromEntries([
  ...datasets.flatMap(({ name }) =>
    tokenizerNames.map((tokenizer) => [defaultFolder(name, tokenizer), commandOf(name, `--tokenizer ${tokenizer}`)]),
  ),
  ...corpora.flatMap(({ name, folders }) =>
    Object.entries(folders).map(([folder, flags]) => [folder, commandOf(name, flags)]),
  ),
]);

function commandOf(name: string, flags: string): string {
  const isDefault = flags === '' || flags === `--tokenizer ${gpt2.name}`;
  return `npm run prepro ${name}${isDefault ? '' : ` -- ${flags}`}`;
}
