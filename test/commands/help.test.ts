// --help of every command: each choice and default once, and what follows commands in one column, however they are typed.
import { expect, it } from 'vitest';
import { program } from '../../src/commands/program.ts';
import { asTyped } from '../../src/package-root.ts';

const root = program(() => new AbortController().signal);
const commands = [root, ...root.commands, ...root.commands.flatMap(({ commands }) => commands)];

it.each(commands.map((command) => [command.name(), command] as const))('%s', (_, command) => {
  const help = command.helpInformation();
  expect(help.match(/"/g)).toBeNull();
  for (const [, choices] of help.matchAll(/\(choices: ([^)]*)\)/g)) {
    expect(help.split(choices!.replaceAll(/\s+/g, ' '))).toHaveLength(1);
  }
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
