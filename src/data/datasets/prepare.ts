// Makes a folder of token shards and dataset.json from a data set. Each file is written under a temporary name and renamed.
import { join } from 'node:path';
import { checkGiven } from '../../base/checks/given.ts';
import { gpt2Error, usageError } from '../../base/errors.ts';
import { addCharacters, characterTokenizerName, UnknownCharacterError } from '../../tokenizer/character-tokenizer.ts';
import { type Loss, noLoss, sumOf } from '../../tokenizer/loss.ts';
import { encode, gpt2, type Tokenizer } from '../../tokenizer/tokenizer.ts';
import { TokenList } from '../../tokenizer/tokens.ts';
import { chooseTokenizer, type LossOptions, refuseLoss, tokenizerOfCharacters } from '../choose-tokenizer.ts';
import { type Dataset, type Role, tokenizerRecord } from '../shards/dataset-file.ts';
import { writeShard } from '../shards/shard.ts';
import { isWhole, type Prepared, replaceDataset, standingIn, standsInTheWay } from '../standing.ts';
import type { DatasetSource } from './dataset.ts';
import { datasetNames, datasets, defaultFolder } from './datasets.ts';
import { placeAfter, textStart } from './text/line-and-column.ts';

export interface PrepareOptions extends LossOptions {
  /** A source file to use instead of the default, for data sets that allow it. */
  readonly from?: string | undefined;
  /** Folder to write. Default data/<name>, or data/<name>-<tokenizer>. */
  readonly out?: string | undefined;
  /** gpt2 (the default), bytes, char: the characters of the text, or the path of a tokenizer.json or of a folder that has one. */
  readonly tokenizer?: string | undefined;
}

/**
 * Makes a data set's shards, unless they exist and are intact.
 * @throws UsageError for an unknown name, or a `from` that the data set does not take; Gpt2Error if the source cannot be read or
 * downloaded, the folder cannot be written, or the folder holds another data set and `overwrite` is not set
 * @example const { folder, dataset } = await prepareDataset('own-source', { out: 'data/own-source' });
 */
export async function prepareDataset(name: string, options: PrepareOptions = {}): Promise<Prepared> {
  const switches = { overwrite: 'switch', lossy: 'switch' } as const;
  checkGiven(options, {}, { from: 'text', out: 'text', tokenizer: 'text', ...switches, notice: 'function' });
  const { from, tokenizer: asked = gpt2.name, overwrite, notice = () => {} } = options;
  const set = datasets.find((candidate) => candidate.name === name);
  if (!set) throw usageError`there is no data set "${name}": name one of ${datasetNames.join(', ')}`;
  if (from && set.isOfPackage) {
    throw usageError`${name} takes no --from: leave it out, its files come with the package`;
  }
  const chosen = chooseTokenizer(asked);
  const folder = options.out ?? defaultFolder(name, chosen?.name ?? characterTokenizerName);

  const { dataset: before, replaced } = standingIn(folder, set.prefix);
  const isOther =
    before !== undefined && !((from ? [from] : set.sources).includes(before.source) && hasTokenizer(before, chosen));
  if (isOther && !overwrite) {
    const other = hasTokenizer(before, chosen) ? '' : ` with the tokenizer ${before.tokenizer}`;
    throw standsInTheWay(folder, `a data set of ${before.source}${other}`);
  }
  // Shards are always made again if the text comes from --from or from the package, because both texts may have changed.
  const mayStay = before !== undefined && !isOther && !from && !set.isOfPackage;
  if (mayStay && isWhole(folder, before)) return { folder, present: true, dataset: before };

  const { source, documents } = await set.documents({ from, notice, folder });
  const tokenizer = chosen ?? tokenizerOfCharacters(charactersOf(documents));
  const { train, val, loss } = split(set, documents, tokenizer);
  refuseLoss(loss, options);
  if (train.length === 0)
    throw gpt2Error`${source} is too short: all its ${val.length} tokens are validation; give a longer text with --from`;
  const dataset = writeDataset(folder, { prefix: set.prefix, replaced }, { source, tokenizer, loss }, { train, val });
  return { folder, present: false, dataset };
}

/** Writes the shards of a data set that replaces another. @throws as `replaceDataset` */
export function writeDataset(
  folder: string,
  { prefix, replaced }: { readonly prefix: string; readonly replaced: readonly string[] },
  { tokenizer, ...facts }: { readonly tokenizer: Tokenizer; readonly source: string; readonly loss: Loss },
  tokens: Readonly<Record<Role, Uint16Array>>,
): Dataset {
  const written = (role: Role) => {
    const file = `${prefix}_${role}.bin`;
    return { file, role, ...writeShard(join(folder, file), tokens[role]) };
  };
  return replaceDataset(folder, replaced, tokenizer, () => {
    const shards = [written('train'), written('val')];
    return { source: facts.source, ...tokenizerRecord(tokenizer, facts.loss), shards };
  });
}

/** Whether a data set was made with this tokenizer. @param tokenizer undefined: the tokenizer "char" */
function hasTokenizer({ tokenizer: name, tokenizerSha256 }: Dataset, tokenizer: Tokenizer | undefined): boolean {
  if (!tokenizer) return name === characterTokenizerName;
  const wanted = tokenizerRecord(tokenizer);
  return name === wanted.tokenizer && tokenizerSha256 === wanted.tokenizerSha256;
}

function charactersOf(documents: readonly string[]): Set<number> {
  const found = new Set<number>();
  for (const document of documents) {
    const bytes = Buffer.from(document);
    addCharacters(bytes, 0, bytes.length, found);
  }
  return found;
}

function split(
  { validation }: DatasetSource,
  documents: readonly string[],
  tokenizer: Tokenizer,
): { train: Uint16Array; val: Uint16Array; loss: Loss } {
  if ('firstTokens' in validation) {
    const { tokens: all, loss } = tokensOf(documents, tokenizer);
    // With the tokenizer "char", the last tenth of the tokens is for validation, as in nanoGPT.
    const isNanoGpt = tokenizer.name === characterTokenizerName;
    const cut = isNanoGpt ? Math.floor(all.length * 0.9) : validation.firstTokens;
    const [first, second] = [all.subarray(0, cut), all.subarray(cut)];
    return isNanoGpt ? { train: first, val: second, loss } : { val: first, train: second, loss };
  }
  const last = Math.max(1, Math.round(documents.length * validation.lastDocumentsShare));
  const [train, val] = [documents.slice(0, -last), documents.slice(-last)].map((part) => tokensOf(part, tokenizer));
  return { train: train!.tokens, val: val!.tokens, loss: sumOf([train!.loss, val!.loss]) };
}

/** A document: a text, or the token ids of a text. */
export type Document = string | ArrayLike<number>;

/** The ids of all documents, each after <|endoftext|> if the vocabulary has it. */
export function tokensOf(documents: readonly Document[], tokenizer: Tokenizer): { tokens: Uint16Array; loss: Loss } {
  const tokens = new TokenList();
  const encoded = tokenizer.encodeAll?.(documents.map((document) => (typeof document === 'string' ? document : '')));
  for (const [index, document] of documents.entries()) {
    if (tokenizer.endOfText !== undefined) tokens.push(tokenizer.endOfText);
    if (typeof document !== 'string') {
      tokens.append(document);
      continue;
    }
    try {
      tokens.append(encoded?.ids[index] ?? encode(document, tokenizer));
    } catch (error) {
      if (!(error instanceof UnknownCharacterError)) throw error;
      const { line, column } = placeAfter(Buffer.from(document).subarray(0, error.at), textStart);
      const beginning = JSON.stringify(document.slice(0, 40));
      throw error.with({ where: `line ${line}, column ${column} of the document that begins with ${beginning}` });
    }
  }
  return { tokens: tokens.view(), loss: encoded?.loss ?? noLoss };
}
