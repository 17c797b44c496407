// Makes the content of tokenizer files for other programs: the text of each token, and the list of merges. Ids are in the order
// of the merges, so a token's bytes, encoded with lower ids only, become the two parts that merge into the token. The tokenizer
// "bytes" has no merges.
import type { BuiltInTokenizer } from './tokenizer.ts';

/** The character that stands for each byte: the byte's Latin-1 character if printable, else one from U+0100 on (Radford et al. 2019). */
const characterOf: readonly string[] = (() => {
  const isPrintable = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : next++));
})();

export const byteOf: ReadonlyMap<string, number> = new Map(characterOf.map((character, byte) => [character, byte]));

/** The text of each id except <|endoftext|>. */
export const tokenTexts = ({ endOfText, bytesOf }: BuiltInTokenizer): string[] =>
  Array.from({ length: endOfText }, (_, id) => Array.from(bytesOf(id), (byte) => characterOf[byte]!).join(''));

/** Cache of made files, because finding GPT-2's merges takes 0.2 s. */
const made = new Map<BuiltInTokenizer, ReturnType<typeof makeFiles>>();
export const tokenizerFiles = (tokenizer: BuiltInTokenizer) =>
  made.get(tokenizer) ?? made.set(tokenizer, makeFiles(tokenizer)).get(tokenizer)!;

/**
 * Returns `tokens`, the text of each id, one printable character per byte (see `characterOf`); the last is <|endoftext|>. Returns
 * `merges`: for each id of 256 or more, the two parts that merge into the id's token, such as "Ġ t".
 */
function makeFiles(tokenizer: BuiltInTokenizer) {
  const tokens = tokenTexts(tokenizer);
  const ranks = new Map(tokens.map((token, id) => [token, id]));
  const merges = tokens.slice(256).map((token, index) => parts(token, 256 + index, ranks).join(' '));
  return { tokens: [...tokens, '<|endoftext|>'], merges };
}

/** The two parts that merge into a token: the result of encoding the token with ids (`ranks`) below its id, `limit`. */
function parts(token: string, limit: number, ranks: ReadonlyMap<string, number>): string[] {
  const pieces = [...token];
  while (pieces.length > 2) {
    let [best, at] = [limit, -1];
    for (let i = 0; i + 1 < pieces.length; i++) {
      const rank = ranks.get(pieces[i]! + pieces[i + 1]!);
      if (rank !== undefined && rank < best) [best, at] = [rank, i];
    }
    if (at < 0) break;
    pieces.splice(at, 2, pieces[at]! + pieces[at + 1]!);
  }
  return pieces;
}
