// The bytes of text of each token, for bits per byte.
import { tokenizerNamed } from './tokenizer.ts';

/** Bytes by id; 0 for a token without text, such as end of text. Undefined for an unknown tokenizer. */
export function byteLengths(name: string, vocabularySize: number): Uint8Array | undefined {
  const tokenizer = tokenizerNamed(name);
  if (!tokenizer) return undefined;
  const lengths = new Uint8Array(vocabularySize);
  for (let id = 0; id < Math.min(vocabularySize, tokenizer.endOfText); id++) lengths[id] = tokenizer.bytesOf(id).length;
  return lengths;
}
