// Makes a folder of token shards and dataset.json from a data set. Each file is written under a temporary name and renamed,
// dataset.json last: a folder with dataset.json is complete.
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { checkGiven } from '../checks/given.ts';
import { Gpt2Error, UsageError } from '../errors.ts';
import { checkedJson } from '../files/checked-json.ts';
import { gpt2VocabularySize } from '../model/config.ts';
import { type Dataset, datasetFile, type Role } from '../shards/find.ts';
import { writeDurably, writeShard } from '../shards/shard.ts';
import { encode, endOfText } from '../tokenizer/tokenizer.ts';
import { TokenList } from '../tokenizer/tokens.ts';
import type { DatasetSource } from './dataset.ts';
import { ownSource } from './own-source.ts';
import { cannotWrite, isWhole, type Prepared, standingIn, standsInTheWay } from './standing.ts';
import { tinyshakespeare } from './tinyshakespeare.ts';

export const datasets: readonly DatasetSource[] = [tinyshakespeare, ownSource];
export const datasetNames: readonly string[] = datasets.map(({ name }) => name);

export interface PrepareOptions {
  /** The source file, if the data set takes one. */
  readonly from?: string;
  /** Folder to write. Default data/<name>. */
  readonly out?: string;
  /** Replaces a data set of another text in the folder. */
  readonly overwrite?: boolean;
  readonly notice?: (text: string) => void;
}

/**
 * Makes a data set's shards, unless they exist and are intact.
 * @throws UsageError for an unknown name, or a --from that it does not take; Gpt2Error if the source cannot be read or
 * downloaded, the folder cannot be written, or it holds another data set and `overwrite` is not set
 * @example const { folder, dataset } = await prepareDataset('own-source', { out: 'data/own-source' });
 */
export async function prepareDataset(name: string, options: PrepareOptions = {}): Promise<Prepared> {
  checkGiven(options, {}, { from: 'text', out: 'text', overwrite: 'switch', notice: 'function' });
  const { from, out, overwrite, notice = () => {} } = options;
  const set = datasets.find((candidate) => candidate.name === name);
  if (!set) throw new UsageError(`there is no data set "${name}": name one of ${datasetNames.join(', ')}`);
  if (from && set === ownSource) {
    throw new UsageError('own-source takes no --from: leave it out, its files come with the package');
  }
  const folder = out ?? join('data', set.name);

  const { dataset: before, shards: replaced } = standingIn(folder, set.prefix);
  const isOther = before !== undefined && !(from ? [from] : set.sources).includes(before.source);
  if (isOther && !overwrite) throw standsInTheWay(folder, `a data set of ${before.source}`);
  // A given text may have changed, and own-source follows the package's files: both are always made again.
  const mayStay = before !== undefined && !isOther && !from && set !== ownSource;
  if (mayStay && isWhole(folder, before)) return { folder, present: true, dataset: before };

  const { source, documents } = await set.documents({ from, notice, folder });
  const { train, val } = split(set, documents);
  if (train.length === 0)
    throw new Gpt2Error(
      `${source} is too short: all its ${val.length} tokens are validation; give a longer text with --from`,
    );
  try {
    mkdirSync(folder, { recursive: true });
    for (const file of readdirSync(folder)) if (file.endsWith('.tmp')) rmSync(join(folder, file));
    for (const file of [datasetFile, ...replaced]) rmSync(join(folder, file), { force: true });
  } catch (cause) {
    throw cannotWrite(folder, cause);
  }
  const written = (role: Role, tokens: Uint16Array) => {
    const file = `${set.prefix}_${role}.bin`;
    return { file, role, ...writeShard(join(folder, file), tokens) };
  };
  const shards = [written('train', train), written('val', val)];
  const dataset: Dataset = { source, tokenizer: 'gpt2', vocabularySize: gpt2VocabularySize, shards };
  writeDurably(join(folder, datasetFile), [Buffer.from(checkedJson(dataset))]);
  return { folder, present: false, dataset };
}

function split({ validation }: DatasetSource, documents: readonly string[]): { train: Uint16Array; val: Uint16Array } {
  if ('firstTokens' in validation) {
    const all = tokensOf(documents);
    return { val: all.subarray(0, validation.firstTokens), train: all.subarray(validation.firstTokens) };
  }
  const last = Math.max(1, Math.round(documents.length * validation.lastDocumentsShare));
  return { train: tokensOf(documents.slice(0, -last)), val: tokensOf(documents.slice(-last)) };
}

/** <|endoftext|> and each document. */
function tokensOf(documents: readonly string[]): Uint16Array {
  const tokens = new TokenList();
  for (const document of documents) {
    tokens.push(endOfText);
    tokens.append(encode(document));
  }
  return tokens.view();
}
