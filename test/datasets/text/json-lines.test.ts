// JSON as lines: arrays in parts of any size, and the field that is the only text.
import { expect, it } from 'vitest';
import { elementsAsLines, onlyTextField } from '../../../src/data/datasets/text/json-lines.ts';

async function linesOf(text: string, partBytes: number): Promise<string[]> {
  const bytes = Buffer.from(text);
  async function* parts() {
    for (let at = 0; at < bytes.length; at += partBytes) yield Uint8Array.from(bytes.subarray(at, at + partBytes));
  }
  const read: Buffer[] = [];
  for await (const part of elementsAsLines(parts(), 'x.json')) read.push(Buffer.from(part));
  return Buffer.concat(read).toString().split('\n');
}

const items = ['a "quoted" text, with ] and }\\', 'größe 漢', { text: 'x', more: [1, { deep: ['[,]'] }] }, 5, null, []];

it.each([1, 2, 7, 1000])('an array has an element in each line, read in parts of %i bytes', async (partBytes) => {
  for (const text of [JSON.stringify(items), JSON.stringify(items, null, 2), `  ${JSON.stringify(items)} \n`]) {
    expect((await linesOf(text, partBytes)).map((line) => JSON.parse(line))).toEqual(items);
  }
  const lines = '{"text": "[a,\\n"}\n{"text": "b"}';
  expect((await linesOf(lines, partBytes)).join('\n')).toBe(lines);
});

it.each([
  ['["a", "b"', 'it ends too early'],
  ['["a", "b', 'it ends too early'],
  ['["a"]\n["b"]', 'more follows its end'],
])('%s is refused', async (text, what) => {
  for (const partBytes of [1, 1000]) {
    await expect(linesOf(text, partBytes)).rejects.toThrow(`x.json is not a valid JSON array: ${what}; write it again`);
  }
});

it.each([
  [['{"content": "a", "id": 1}', '', '{"id": 2, "content": "b"}'], 'content'],
  [['"a"', '"b"'], 'text'],
  [['{"text": "a"}', '{"content": "b"}'], undefined],
  [['{"text": "a", "title": "b"}'], undefined],
  [['{"id": 1}'], undefined],
  [['[1]'], undefined],
  [['plain'], undefined],
  [[''], undefined],
])('the only field of text of %j is %s', (lines, field) => {
  expect(onlyTextField(lines)).toBe(field);
});
