// Finds the shards of a data-set folder. If the folder is missing, the error names the command that makes it.
import { existsSync, readdirSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { checkArguments, checkValue } from '../../base/checks/given.ts';
import { didYouMean } from '../../base/checks/nearest.ts';
import { explained, type Gpt2Error, gpt2Error, onCommandLine, orElse, shortList, words } from '../../base/errors.ts';
import { shellWord } from '../../base/wording.ts';
import { datasetFile, type Role, readDataset, roleOfName, unfinishedFolder } from '../shards/dataset-file.ts';
import { preproOf } from './datasets.ts';

/**
 * Paths of a folder's shards of one role, sorted bytewise: .bin files with "train" or "val" in their name.
 * @throws Gpt2Error if the folder is missing or unfinished, lacks a shard that its dataset.json lists, has no shard of the role, or
 * if a shard's name has both roles
 * @example const shards = findShards('data/tinyshakespeare', 'train');
 */
export function findShards(folder: string, role: Role): string[] {
  checkArguments({ folder });
  checkValue('role', ['train', 'val'], role);
  if (!existsSync(folder)) throw noData(folder);
  if (existsSync(join(folder, unfinishedFolder)) && !existsSync(join(folder, datasetFile))) {
    throw gpt2Error`${folder} is not finished: run the same prepro again, which continues`;
  }
  const names = explained(
    `${folder} cannot be read as a folder of token shards`,
    roleOfName(basename(folder)).length > 0
      ? `name its folder, ${dirname(folder)}`
      : words`name another${onCommandLine(` with --data, or make one of a text: \`npm run prepro -- text ${shellWord(folder)}\``)}`,
    () => readdirSync(folder),
  );
  const both = names.find((name) => roleOfName(name).length === 2);
  if (both) throw gpt2Error`${join(folder, both)} is named both train and val; rename it`;
  const listed = readDataset(folder)?.shards.filter((shard) => shard.role === role) ?? [];
  const missing = listed.flatMap(({ file }) => (names.includes(file) ? [] : [file]));
  if (missing.length > 0) {
    throw gpt2Error`${folder} lacks ${shortList(missing)}, which its ${datasetFile} lists; restore the shard, or run prepro again`;
  }
  const other = listed.find(({ file }) => !roleOfName(file).includes(role));
  if (other)
    throw gpt2Error`${join(folder, datasetFile)} lists ${other.file} as ${role}, unlike its name; restore the file, or run prepro again`;
  const found = names.filter((name) => roleOfName(name).includes(role));
  if (found.length === 0) {
    const made = join('data', basename(resolve(folder)));
    const hasOne = entriesOf(made).some((name) => roleOfName(name).includes(role));
    const inside = setsIn(folder);
    const make =
      inside.length > 0 ? `name one of the folders in it, such as ${shortList(inside)}` : 'run prepro to make one';
    throw gpt2Error`${folder} has no ${role} shard (a .bin file with "${role}" in its name): ${hasOne ? `did you mean ${made}?` : make}`;
  }
  return found.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b))).map((name) => join(folder, name));
}

function noData(folder: string): Gpt2Error {
  const make = preproOf[relative('', folder)];
  if (make)
    return gpt2Error`there is no data in ${folder}: run \`${make}\`, or name another folder${onCommandLine(' with --data')}`;
  const places = new Set([join(folder, '..'), 'data']);
  const sets = [...places].flatMap(setsIn);
  const such = sets.length === 0 ? '' : `, such as ${shortList(sets)}`;
  const name = words`name another${onCommandLine(' with --data')}${such}`;
  const ownText = words`make it: \`npm run prepro -- text FILE --out ${shellWord(folder)}\``;
  return gpt2Error`${folder} does not exist; ${didYouMean(basename(folder), new Map(sets.map((path) => [basename(path), path])), `${name}, or ${ownText}`)}`;
}

const entriesOf = (path: string): string[] => orElse([], () => readdirSync(path));

const setsIn = (place: string): string[] =>
  entriesOf(place)
    .map((name) => join(place, name))
    .filter((path) => entriesOf(path).some((name) => roleOfName(name).length > 0));
