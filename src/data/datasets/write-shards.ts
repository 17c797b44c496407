// Makes a data folder from documents that a program has in memory: texts, or ids.
import { argumentKinds, checkArguments, checkGiven, real } from '../../base/checks/given.ts';
import { UsageError, usageError } from '../../base/errors.ts';
import { sumOf } from '../../tokenizer/loss.ts';
import { builtInNamed, chosenTokenizer, gpt2, type Tokenizer } from '../../tokenizer/tokenizer.ts';
import { type LossOptions, refuseLoss } from '../choose-tokenizer.ts';
import { type Prepared, standingIn, standsInTheWay } from '../standing.ts';
import { type Document, tokensOf, writeDataset } from './prepare.ts';
import { shardPrefix } from './text/prepare-text.ts';

export interface ShardOptions extends LossOptions {
  /** The tokenizer of the texts, or the name of a built-in one. Default gpt2. */
  readonly tokenizer?: Tokenizer | string | undefined;
  /** Documents for validation, or a share of `documents`: at least one document, chosen at even distances. Default 0.01. */
  readonly validation?: number | Iterable<Document> | undefined;
}

/**
 * Writes shards and dataset.json to a folder for the option `data`. Each document begins with end of text, if the vocabulary has it.
 * @param documents texts, or ids of the tokenizer
 * @throws UsageError for an id outside the vocabulary, or too few documents; Gpt2Error if the folder holds another data set
 * @example
 * const { dataset } = writeShards('data/letters', ['first text', 'second', [3, 5, 7]], { tokenizer: 'bytes', validation: 0.3 });
 */
export function writeShards(folder: string, documents: Iterable<Document>, options: ShardOptions = {}): Prepared {
  checkArguments({ folder, documents });
  const part = typeof options?.validation === 'number' ? real(1e-9, 1) : argumentKinds.documents;
  const switches = { overwrite: 'switch', lossy: 'switch' } as const;
  checkGiven(options, {}, { tokenizer: 'text or object', validation: part, ...switches, notice: 'function' });
  const { tokenizer: asked = gpt2, validation = 0.01, overwrite } = options;
  const tokenizer = chosenTokenizer(asked);
  if (tokenizer.file === undefined && builtInNamed(tokenizer.name) !== tokenizer)
    throw usageError`dataset.json cannot name the tokenizer ${tokenizer.name}, which has no file; give one of readTokenizer()`;
  const [train, val] = divided([...documents], validation);
  if (train.length === 0 || val.length === 0) {
    throw usageError`writeShards needs documents for training and for validation, not ${train.length} and ${val.length}`;
  }
  const prefix = shardPrefix(folder);
  const { dataset: before, replaced } = standingIn(folder, prefix);
  if (before && !overwrite) throw standsInTheWay(folder, `a data set of ${before.source}`);
  const idsOf = (part: Document[]) => {
    const checkedPart = part.map((each) => checked(each, tokenizer));
    return tokensOf(checkedPart, tokenizer);
  };
  const [first, second] = [idsOf(train), idsOf(val)];
  const loss = sumOf([first.loss, second.loss]);
  refuseLoss(loss, options);
  const tokens = { train: first.tokens, val: second.tokens };
  for (const [role, { length }] of Object.entries(tokens)) {
    if (length < 2)
      throw usageError`the documents for ${role} have ${length} of the 2 tokens that a batch needs at least; give longer texts`;
  }
  const source = 'documents of a program';
  const dataset = writeDataset(folder, { prefix, replaced }, { source, tokenizer, loss }, tokens);
  return { folder, present: false, dataset };
}

function divided(documents: Document[], validation: number | Iterable<Document>): [Document[], Document[]] {
  if (typeof validation !== 'number') return [documents, [...validation]];
  const count = Math.max(1, Math.round(documents.length * validation));
  const isChosen = (at: number) =>
    Math.floor(((at + 1) * count) / documents.length) > Math.floor((at * count) / documents.length);
  return [documents.filter((_, at) => !isChosen(at)), documents.filter((_, at) => isChosen(at))];
}

/** Checks the ids of a document and removes a leading end of text, because `tokensOf` will add one. @throws UsageError for a wrong id */
function checked(document: Document, { vocabularySize, endOfText }: Tokenizer): Document {
  if (typeof document === 'string') return document;
  if (typeof document !== 'object' || typeof document?.length !== 'number')
    throw UsageError.takes('a document', 'a text or ids', document);
  const ids = Array.from(document);
  // findIndex, not find: the wrong value may itself be undefined.
  const wrong = ids.findIndex((id) => !(Number.isInteger(id) && id >= 0 && id < vocabularySize));
  if (wrong >= 0) throw usageError`a document holds ${ids[wrong]}, which is no id of a vocabulary of ${vocabularySize}`;
  return ids[0] === endOfText ? ids.slice(1) : ids;
}
