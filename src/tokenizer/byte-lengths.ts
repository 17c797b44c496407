// How many bytes of text each token of a tokenizer stands for: what bits per byte are counted by. The tokenizer of a data set
// is the one its dataset.json names.
import { tokenizerNamed } from './tokenizer.ts';

/** By id; 0 where a token has no text, as the end of one. Undefined for a tokenizer that is not known. */
export function byteLengths(name: string, vocabularySize: number): Uint8Array | undefined {
  const tokenizer = tokenizerNamed(name);
  if (!tokenizer) return undefined;
  const lengths = new Uint8Array(vocabularySize);
  for (let id = 0; id < Math.min(vocabularySize, tokenizer.endOfText); id++) lengths[id] = tokenizer.bytesOf(id).length;
  return lengths;
}
