// Texts that a tokenizer is tried on: any characters at all, and the few that its pattern turns on, close together.
import fc from 'fast-check';
import { Random } from '../../src/ops/cases/case-numbers.ts';

const telling = [
  ...[' ', '  ', '\n', '\r\n', '\t', '\u000b', '\u0085', '\u00a0', '\u1680', '\u2003', '\u2028', '\u3000', '\ufeff'],
  ...["'", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'l", "'S", "''"],
  ...['a', 'the', 'Z', 'é', 'ß', 'ж', 'λ', '漢字', 'かな', '한글', 'ا', 'ไทย', 'नि', '\u0301', '\u200d', '\u0378'],
  ...['0', '42', '½', '٣', 'Ⅷ', '、', '。', '！', '“', '’', '—', '.', '!?', '_', '<|endoftext|>', '\u0000', '\u007f'],
  ...['🦜', '👩‍👩‍👧', '𝒳', '\u{10ffff}', '\ufffd'],
];

const fragments = fc.array(fc.constantFrom(...telling), { maxLength: 60, size: 'max' }).map((parts) => parts.join(''));

export const anyText: fc.Arbitrary<string> = fc.oneof(
  fragments,
  fc.string({ unit: 'binary', maxLength: 200, size: 'max' }),
  fc.string({ unit: 'grapheme', maxLength: 100, size: 'max' }),
);

const letters = [
  ...['a', 'ab', 'etaoin', 'abcdefghijklmnopqrstuvwxyz', 'éaß', 'ж', '漢字', 'ไทย', '𝒳'],
  ...['01', '٣5', '½', '-', '=-!?', '🦜🙂', '。、', ' ', ' \n', '\u3000 '],
];

/** Words of up to some thousand characters that are letters, digits, signs or white space throughout, between others. */
export const longWord: fc.Arbitrary<string> = fc
  .tuple(
    fc.constantFrom(...letters),
    fc.integer({ min: 1, max: 2500 }),
    fc.nat(),
    fc.constantFrom(...telling, ''),
    fc.constantFrom(...telling, ''),
  )
  .map(([alphabet, length, seed, before, after]) => {
    const characters = [...alphabet];
    const random = new Random(seed);
    const drawn = Array.from({ length }, () => characters[Math.floor(random.uniform() * characters.length)]);
    return before + drawn.join('') + after;
  });
