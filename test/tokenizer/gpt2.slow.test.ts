// The ids of GPT-2's encoding are tiktoken's own for any text, and a safe place to cut is one wherever it is.
import fc from 'fast-check';
import { get_encoding } from 'tiktoken';
import { expect, it } from 'vitest';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { chooseCut } from '../../src/tokenizer/safe-cuts.ts';
import { decode, encode, gpt2 } from '../../src/tokenizer/tokenizer.ts';
import { TokenList } from '../../src/tokenizer/tokens.ts';
import { rounds } from '../support/rounds.ts';
import { anyText, longWord } from './texts.ts';

const tiktoken = get_encoding('r50k_base');

it("gives tiktoken's ids, and the text back, for any text", () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const ids = encode(text);
      expect([...ids]).toEqual([...tiktoken.encode_ordinary(text)]);
      expect(decode(ids)).toBe(text);
    }),
    { numRuns: 8000 * rounds },
  );
});

it("gives tiktoken's ids for long words of few different characters", () => {
  fc.assert(
    fc.property(longWord, (text) => {
      expect(encode(text).join()).toBe(tiktoken.encode_ordinary(text).join());
    }),
    { numRuns: 300 * rounds },
  );
});

it.each(['abcdefghijkl', '0123456789', '-=', '🦜🙂👍', '漢字仮名'])(
  "gives tiktoken's ids for 24,000 bytes of %s",
  (alphabet) => {
    const random = new Random(1);
    const characters = [...alphabet];
    const length = 24_000 / Buffer.byteLength(characters[0]!);
    const word = Array.from({ length }, () => characters[Math.floor(random.uniform() * characters.length)]).join('');
    const text = `a ${word}, ${word.slice(0, 3000)}\u1680${word.slice(0, 600)}`;
    expect(encode(text).join()).toBe(tiktoken.encode_ordinary(text).join());
  },
);

it("gives tiktoken's ids for every character, between letters and after a blank", () => {
  for (let start = 0; start < 0x110000; start += 256) {
    const isSurrogate = start >= 0xd800 && start < 0xe000;
    const isUnassigned = start >= 0x40000 && start < 0xe0000;
    if (isSurrogate || isUnassigned) continue;
    const text = Array.from({ length: 256 }, (_, index) => {
      const character = String.fromCodePoint(start + index);
      return `a${character}a ${character} 1${character}${character}\n${character}'s!`;
    }).join('');
    expect(encode(text).join(), `from U+${start.toString(16)}`).toBe(tiktoken.encode_ordinary(text).join());
  }
});

it('cut at any place it chooses, the ids of the parts are those of the whole', () => {
  fc.assert(
    fc.property(anyText, fc.nat(), (text, somewhere) => {
      const bytes = Buffer.from(text);
      if (bytes.length < 2) return;
      const from = 1 + (somewhere % (bytes.length - 1));
      const cut = chooseCut(bytes, from, bytes.length);
      // Without a safe place it is the last character's beginning, which is none.
      if (cut === lastCharacter(bytes)) return;
      const parts = new TokenList();
      gpt2.append(bytes, 0, cut, parts);
      gpt2.append(bytes, cut, bytes.length, parts);
      expect([...parts.view()]).toEqual([...tiktoken.encode_ordinary(text)]);
    }),
    { numRuns: 8000 * rounds },
  );
});

function lastCharacter(bytes: Buffer): number {
  let at = bytes.length - 1;
  while ((bytes[at]! & 0xc0) === 0x80) at--;
  return at;
}

it('long texts in writings of many kinds, and more words than are remembered', () => {
  const writings = [
    'Привет, как дела? ',
    '天地玄黃，宇宙洪荒。',
    'สวัสดีชาวโลก ',
    'नमस्ते दुनिया ',
    '🦜🦜 ok ',
    'x'.repeat(50),
  ];
  const text = Array.from({ length: 90_000 }, (_, index) => `${writings[index % 6]}${(index * 7919).toString(36)}`);
  const whole = text.join(' ');
  expect(encode(whole).join()).toBe(tiktoken.encode_ordinary(whole).join());
});
