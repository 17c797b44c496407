// --help of every command: each choice and default once, and what follows commands in one column, however they are typed.
import { expect, it } from 'vitest';
import { asTyped } from '../../src/base/wording.ts';
import { program } from '../../src/commands/command-line.ts';

const root = program(() => new AbortController().signal);
const commands = [root, ...root.commands, ...root.commands.flatMap(({ commands }) => commands)];

it.each(commands.map((command) => [command.name(), command] as const))('%s', (_, command) => {
  const help = command.helpInformation();
  expect(help.match(/"/g)).toBeNull();
  for (const [, choices] of help.matchAll(/\(choices: ([^)]*)\)/g)) {
    expect(help.split(choices!.replaceAll(/\s+/g, ' '))).toHaveLength(1);
  }
});

/** The columns in which explanations begin, in each paragraph that has several: after two spaces, or on a line of their own. */
const columnsOf = (help: string): number[][] =>
  help.split(/\n\s*\n/).flatMap((paragraph) => {
    const columns = paragraph
      .split('\n')
      .map((line) => line.search(/(?<=^ {2,}\S.*? {2,}|^ {20,})\S/))
      .filter((column) => column >= 0);
    return columns.length > 1 ? [[...new Set(columns)]] : [];
  });

it.each(commands.map((command) => [command.name(), command] as const))('%s: columns align', (_, command) => {
  let help = '';
  command.configureOutput({ ...command.configureOutput(), writeOut: (text) => (help += text) }).outputHelp();
  for (const compiled of [false, true]) {
    const columns = columnsOf(asTyped(help, { compiled }));
    expect(columns.length).toBeGreaterThan(0);
    expect(
      columns.filter(({ length }) => length > 1),
      help,
    ).toEqual([]);
  }
});

it('the search finds columns that do not align', () => {
  expect(columnsOf(`A:\n  a   one\n  bb   two\n\n  c    three\n  dd   four\n`)).toEqual([[6, 7], [7]]);
  expect(columnsOf(`  a${' '.repeat(20)}one\n  b two\n${' '.repeat(22)}three\n`)).toEqual([[23, 22]]);
});

it('explanations of commands stay in their column', () => {
  const help = '  npm run eval                  all\n  npm run gpt2 -- runs --json   those\n';
  const columns = (text: string) =>
    text
      .trimEnd()
      .split('\n')
      .map((line) => line.search(/(?<= {3})\w/));
  expect(new Set([...columns(help), ...columns(asTyped(help, { compiled: true }))]).size).toBe(1);
});
