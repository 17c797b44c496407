// Checks that rows of the options table are well formed, and that no other file has a list of options.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { optionMeant, tableOption } from '../../src/commands/option-of-table.ts';
import { readValue } from '../../src/options/read-options.ts';
import { defaultOf, flagOf } from '../../src/options/row.ts';
import { type OptionName, optionNamed, optionNames, optionRows } from '../../src/options/table.ts';

describe.each(optionNames)('%s', (name) => {
  const row = optionRows[name];

  it('has a help of one short phrase, without its default', () => {
    expect(row.help.length).toBeLessThan(80);
    expect(row.help).not.toMatch(/default|[.\n]$/);
  });

  it('has defaults that it accepts', () => {
    for (const kind of ['cpu', 'cuda'] as const) {
      const size = { context: 1024, channels: 768 };
      const value = defaultOf(row, { kind, ...size, startsFromWeights: false, isModelKnown: true, asked: {} });
      if (value !== undefined) expect(readValue(row, value)).toBe(value);
    }
    if (row.alone !== undefined) expect(readValue(row, row.alone)).toBe(row.alone);
  });

  it('has a flag of its own, and needs an option that exists', () => {
    expect(optionNames.filter((other) => flagOf(optionRows[other]) === flagOf(row))).toEqual([name]);
    if (row.needs !== undefined) expect(optionNames).toContain(row.needs);
    expect(row.usage).toMatch(row.type === 'switch' ? /^--[\w-]+$/ : row.alone === undefined ? / <.+>$/ : / \[.+\]$/);
  });
});

it('has no name of another program twice, nor one of its own', () => {
  const elsewhere = optionNames.flatMap((name) => (optionRows[name].elsewhere ?? []).map((other) => [other, name]));
  expect(elsewhere.length).toBeGreaterThan(30);
  const options = optionNames.map((name) => tableOption(name));
  const meant = elsewhere.map(([other]) => [other, optionMeant(`--${other}`, options)?.long]);
  expect(meant).toEqual(elsewhere.map(([other, name]) => [other, flagOf(optionRows[name as OptionName])]));
  expect(elsewhere.filter(([other]) => optionNamed(other!))).toEqual([]);
});

/** Option names in quotes, in an array or a union, and as keys of one object. */
function lists(text: string): string[] {
  const names = new Set<string>(optionNames);
  const quoted = [...text.matchAll(/'\w+'(?:\s*[,|]\s*'\w+')+/g)].map(([list]) => [list, list.matchAll(/'(\w+)'/g), 3]);
  const keyed = [...text.matchAll(/\{[^{}]*\}/g)].map(([block]) => [block, block.matchAll(/^\s+(\w+)\??:/gm), 10]);
  return ([...quoted, ...keyed] as [string, Iterable<RegExpMatchArray>, number][])
    .filter(([, found, most]) => [...found].filter((match) => names.has(match[1]!)).length >= most)
    .map(([list]) => list);
}

it('the search finds lists', () => {
  expect(lists("const fixed = ['layers', 'seed', 'order'];")).toHaveLength(1);
  expect(lists("type Unset = 'steps' | 'keep' |\n  'out';")).toHaveLength(1);
  const schema = optionNames.map((name) => `  ${name}: z.int(),`).join('\n');
  expect(lists(`const schema = z.object({\n${schema}\n});`)).toHaveLength(1);
});

const source = fileURLToPath(new URL('../../src', import.meta.url));
const files = readdirSync(source, { recursive: true, encoding: 'utf8' }).filter(
  // The rows of a model's parts are made from the table of parts.
  (name) => name.endsWith('.ts') && !/^options\/|\.generated\.ts$|^model\/architecture\.ts$/.test(name),
);
it('no file outside src/options lists options', () => {
  const found = files.flatMap((name) => lists(readFileSync(join(source, name), 'utf8')).map((list) => [name, list]));
  expect(found).toEqual([]);
});
