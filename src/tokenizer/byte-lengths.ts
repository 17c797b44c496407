// How many bytes of text each token of a tokenizer stands for: what bits per byte are counted by. The tokenizer of a data set
// is the one its dataset.json names.
import { tokenBytes } from './tokenizer.ts';

/** By id; 0 where a token has no text, as the end of one. Undefined for a tokenizer that is not known. */
export function byteLengths(tokenizer: string, vocabularySize: number): Uint8Array | undefined {
  const lengths = new Uint8Array(vocabularySize);
  if (tokenizer === 'bytes') return lengths.fill(1, 0, 256);
  if (tokenizer !== 'gpt2') return undefined;
  for (const [id, { length }] of tokenBytes().entries()) lengths[id] = length;
  return lengths;
}
