// Trains a byte-level BPE tokenizer on text files. The package `tokenizers` finds the merges, in the process that also reads
// tokenizer files. The package takes no settings and always learns 30,000 entries. A smaller vocabulary takes only the first
// merges, because a merge does not depend on later ones.
import { readFileSync } from 'node:fs';
import { explained, Gpt2Error, shortList } from '../base/errors.ts';
import { decodeUtf8 } from '../base/files/strict-text.ts';
import { byteOf } from './gpt2-files.ts';
import { libraryOf } from './huggingface-library.ts';

/** Limits of the vocabulary's size: at least the 256 bytes and end of text, at most the entries that the package learns. */
export const leastVocabulary = 257;
export const mostVocabulary = 30_000;

const byteLevel = { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true };
const untrained = {
  ...{ version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null },
  ...{ pre_tokenizer: byteLevel, post_processor: null, decoder: byteLevel },
  model: { type: 'BPE', vocab: {}, merges: [] },
};
const endOfText = '<|endoftext|>';

/**
 * The content of tokenizer.json: <|endoftext|>, the 256 bytes in the library's order, and the merges that fit.
 * @param vocabulary number of ids, from 257 to 30,000; the result has fewer if the texts have too few merges
 * @throws Gpt2Error if a file cannot be read or is not UTF-8, if there is nothing to merge, or the package is not installed
 */
export function trainTokenizer(files: readonly string[], vocabulary: number): { file: string; vocabularySize: number } {
  files.forEach(checkText);
  const learned = libraryOf(JSON.stringify(untrained), 'to train').train(files);
  const { model } = JSON.parse(learned) as { model: { merges: [string, string][] } };
  if (model.merges.length === 0) throw new Gpt2Error(`${shortList(files)} has no word of two bytes; name longer texts`);
  // The bytes are in the order of their characters, as in the library.
  const ids = new Map([endOfText, ...[...byteOf.keys()].sort()].map((token, id) => [token, id]));
  const kept: [string, string][] = [];
  for (const [left, right] of model.merges) {
    if (ids.size >= vocabulary) break;
    kept.push([left, right]);
    // Two merges can give the same token.
    if (!ids.has(left + right)) ids.set(left + right, ids.size);
  }
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  const tokenizer = {
    ...untrained,
    added_tokens: [{ id: 0, content: endOfText, ...flags }],
    model: { ...model, vocab: Object.fromEntries(ids), merges: kept },
  };
  return { file: `${JSON.stringify(tokenizer, null, 2)}\n`, vocabularySize: ids.size };
}

function checkText(path: string): void {
  const advice = 'name plain text files';
  const what = `the text ${path} cannot be used`;
  explained(what, advice, () => decodeUtf8(readFileSync(path)));
}
