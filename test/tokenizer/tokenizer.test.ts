// GPT-2's encoding: known ids, characters split over tokens, long texts. Round trips of any text: gpt2.slow.test.ts.
import { expect, it } from 'vitest';
import { decode, encode, endOfText, StreamDecoder, textOf } from '../../src/tokenizer/tokenizer.ts';

it('gives the published ids', () => {
  expect([...encode('Hello world')]).toEqual([15496, 995]);
  expect([...encode('First Citizen:\nBefore we')]).toEqual([5962, 22307, 25, 198, 8421, 356]);
});

it('a character split over tokens appears with its last byte', () => {
  const ids = [...encode('🦜 naïve 漢字')];
  const decoder = new StreamDecoder();
  const parts = ids.map((id) => decoder.push(id));
  expect(parts.join('') + decoder.end()).toBe('🦜 naïve 漢字');
  expect(parts.join('')).not.toContain('\ufffd');
  expect(parts.some((part) => part === '')).toBe(true);
});

it('an unfinished character ends as a replacement, and does not leak into the next text', () => {
  const [first] = encode('🦜');
  const decoder = new StreamDecoder();
  expect(decoder.push(first!)).toBe('');
  expect(decoder.end()).toBe('\ufffd');
  expect(decode(encode('a'))).toBe('a');
});

it('end of text is no text, and written out it is ordinary text', () => {
  expect(decode([15496, endOfText, 995])).toBe('Hello world');
  expect([...encode('<|endoftext|>')]).not.toContain(endOfText);
  expect(decode(encode('<|endoftext|>'))).toBe('<|endoftext|>');
});

it('a token of a model with more ids than the vocabulary has no text', () => {
  expect(textOf([15496, 50303, 995])).toBe('Hello world');
});

it('a long text is cut where no token spans, so that the cut does not show', () => {
  const line = 'the quick brown fox jumps over the lazy dog 12345\n';
  const whole = line.repeat(5000);
  const ids = encode(whole);
  expect(decode(ids)).toBe(whole);
  expect(ids.length).toBe(encode(line.repeat(1000)).length * 5);
});

it.each(['a', 'ab', '7', '🦜', ' '])('a million bytes of "%s" without a break are encoded all the same', (part) => {
  const text = part.repeat(1_000_000 / Buffer.byteLength(part));
  expect(decode(encode(text))).toBe(text);
});
