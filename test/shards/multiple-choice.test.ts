// llm.c's file of multiple-choice questions: word for word what its format says, read back as it was written, and refused by
// the question that is damaged.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { type Question, readQuestions, writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { randomQuestions } from '../support/questions.ts';

const folder = mkdtempSync(join(tmpdir(), 'gpt2-'));
afterAll(() => rmSync(folder, { recursive: true }));
const path = join(folder, 'questions.bin');

const two: Question[] = [
  { label: 1, context: Uint16Array.of(5, 6), completions: [Uint16Array.of(7), Uint16Array.of(8, 9)] },
  { label: 0, context: Uint16Array.of(1), completions: [Uint16Array.of(2), Uint16Array.of(3), Uint16Array.of(65534)] },
];

it('is what the format says, word for word', () => {
  writeQuestions(path, two);
  const bytes = Uint8Array.from(readFileSync(path));
  expect([...new Int32Array(bytes.buffer, 0, 256)]).toEqual([20240522, 1, 2, 26, ...new Array(252).fill(0)]);
  expect([...new Uint16Array(bytes.buffer, 1024)]).toEqual([
    ...[65535, 26, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9],
    ...[65535, 26, 1, 0, 3, 1, 1, 1, 2, 1, 3, 1, 65534],
  ]);
});

it('is read back as it was written', () => {
  const questions = randomQuestions(300, { vocabulary: 50257, longest: 200 });
  writeQuestions(path, questions);
  expect(readQuestions(path)).toEqual(questions);
});

/** The file of `two` with one change, of words from the first question on or of the whole. */
function changed(
  change: (words: Uint16Array, header: Int32Array, bytes: Uint8Array) => Uint8Array | undefined,
): string {
  writeQuestions(path, two);
  const bytes = Uint8Array.from(readFileSync(path));
  const other = change(new Uint16Array(bytes.buffer, 1024), new Int32Array(bytes.buffer, 0, 256), bytes);
  writeFileSync(path, other ?? bytes);
  return path;
}
const word =
  (at: number, value: number): Parameters<typeof changed>[0] =>
  (words) => {
    words[at] = value;
    return undefined;
  };
const head =
  (at: number, value: number): Parameters<typeof changed>[0] =>
  (_, header) => {
    header[at] = value;
    return undefined;
  };

it.each([
  ['another magic', head(0, 20240520), 'it begins with 20240520, not 20240522'],
  ['another version', head(1, 2), 'its version is 2, not 1'],
  ['no questions', head(2, 0), 'its header says 0 questions'],
  ['a negative number of questions', head(2, -1), 'its header says -1 questions'],
  ['too many questions', head(2, 3), 'question 2 of 3 is missing or cut off'],
  ['too few questions', head(2, 1), '26 bytes follow its last question'],
  ['a longest that is not', head(3, 24), 'question 0 of 2 has 26 bytes, the longest according to the header 24'],
  ['no marker', word(0, 7), 'question 0 of 2 begins with 7, not 65535'],
  ['a size of no words', word(1, 25), 'question 0 of 2 says it has 25 bytes'],
  ['a size under the least', word(1, 10), 'question 0 of 2 says it has 10 bytes'],
  ['a size that is too short', word(1, 24), 'question 0 of 2 has a completion 1 of 2 tokens'],
  ['another index', word(2, 5), 'question 0 of 2 has the index 5'],
  ['a label beyond', word(3, 2), 'question 0 of 2 has the label 2 for 2 completions'],
  ['one completion', word(4, 1), 'question 0 of 2 has 1 completions'],
  ['more completions than there are', word(4, 60000), 'has a completion 2 of undefined tokens'],
  ['fewer completions', word(13 + 4, 2), 'question 1 of 2 has 4 bytes after its completions'],
  ['an empty context', word(5, 0), 'question 0 of 2 has a context of 0 tokens'],
  ['a context that is too long', word(5, 60000), 'has a context of 60000 tokens'],
  ['an empty completion', word(8, 0), 'has a completion 0 of 0 tokens'],
  ['a marker among the tokens', word(6, 65535), 'has the token 65535 in its context'],
  [
    'a torn end',
    (_: Uint16Array, __: Int32Array, bytes: Uint8Array) => bytes.subarray(0, -2),
    'question 1 of 2 is cut off',
  ],
  ['half a word', (_: Uint16Array, __: Int32Array, bytes: Uint8Array) => bytes.subarray(0, -1), 'an odd number'],
  ['half a header', (_: Uint16Array, __: Int32Array, bytes: Uint8Array) => bytes.subarray(0, 100), 'it has 100 bytes'],
] as const)('with %s is refused', (_, change, message) => {
  const file = changed(change);
  expect(() => readQuestions(file)).toThrow(Gpt2Error);
  expect(() => readQuestions(file)).toThrow(message);
});

it('that is not there, or a folder, is refused', () => {
  expect(() => readQuestions(join(folder, 'none'))).toThrow(
    /there are no questions in .*none: run `npm run prepro hellaswag`/,
  );
  expect(() => readQuestions(folder)).toThrow('it is not a regular file');
});

it('does not take what the format has no room for', () => {
  const long = { ...two[0]!, context: new Uint16Array(40_000) };
  expect(() => writeQuestions(path, [two[0]!, long])).toThrow('question 1 is too long for');
  expect(() => writeQuestions(path, [])).toThrow('cannot hold 0 questions, only 1 to 65535');
  expect(() => writeQuestions(path, new Array(65_536).fill(two[0]))).toThrow('cannot hold 65536 questions');
});
