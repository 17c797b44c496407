// Inspects a token shard: header, ends of text, and the text at a position, decoded with the tokenizer of its dataset.json.
import { dirname } from 'node:path';
import { gpt2Error } from '../../base/errors.ts';
import { StreamDecoder, type Tokenizer } from '../../tokenizer/tokenizer.ts';
import { readDatasetTokenizer } from '../shards/dataset-file.ts';
import { openShard } from '../shards/shard.ts';
import { findShards } from './find-shards.ts';

/**
 * Reads a whole shard and returns its header, hash and counts, and the text of `count` tokens from `at` on.
 * @throws Gpt2Error if the file is not a shard, has ids beyond its vocabulary, or ends before `at`
 */
export function inspectShard(path: string, { at = 0, count = 64 }: { at?: number; count?: number } = {}) {
  using shard = openShard(path);
  const tokenizer = readDatasetTokenizer(dirname(path));
  if (at >= shard.tokens) throw gpt2Error`${path} has ${shard.tokens} tokens, none at ${at}: give a smaller --at`;
  let endsOfText = 0;
  let largest = 0;
  shard.checkTokens(tokenizer.vocabularySize, undefined, (tokens) => {
    for (const id of tokens) {
      if (id > largest) largest = id;
      if (id === tokenizer.endOfText) endsOfText++;
    }
  });
  const ids = [...shard.read(at, Math.min(count, shard.tokens - at))];
  return {
    path,
    tokens: shard.tokens,
    bytes: 1024 + 2 * shard.tokens,
    sha256: shard.sha256!,
    tokenizer: tokenizer.name,
    vocabularySize: tokenizer.vocabularySize,
    /** Number of ends of text: before each document, and where a document continues in this role after a stretch of the other role. */
    endsOfText,
    largest,
    at,
    ids,
    /** The text of `ids`, with "<|endoftext|>" for ends of text, and U+FFFD for a character that is cut off. */
    text: textOf(ids, tokenizer),
  };
}

/** Up to three words of a data set's validation text, usable as a prompt: the data set's tokenizer has ids for their characters. */
export function firstWords(folder: string): string {
  using shard = openShard(findShards(folder, 'val')[0]!);
  const text = textOf([...shard.read(0, Math.min(200, shard.tokens))], readDatasetTokenizer(folder));
  // Other lines are preferred, because the first may begin within a word.
  const [first, ...lines] = text.replaceAll('<|endoftext|>', '\n').split('\n');
  const line = lines.find((each) => /\p{L}/u.test(each)) ?? first!;
  return Array.from(line.replaceAll(/[\p{C}\ufffd]/gu, '').trim())
    .slice(0, 40)
    .join('')
    .split(/\s+/)
    .slice(0, 3)
    .join(' ');
}

function textOf(ids: readonly number[], tokenizer: Tokenizer): string {
  const decoder = new StreamDecoder(tokenizer);
  const texts = ids.map((id) => (id === tokenizer.endOfText ? `${decoder.end()}<|endoftext|>` : decoder.push(id)));
  return texts.join('') + decoder.end();
}
