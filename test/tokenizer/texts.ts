// Texts that a tokenizer is tried on: any characters at all, and the few that its pattern turns on, close together.
import fc from 'fast-check';

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
