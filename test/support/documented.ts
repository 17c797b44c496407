// The commands that a page or a --help text shows, as the words that reach the program; and the program, which parses them.
import { type Command, CommanderError } from 'commander';
import { program } from '../../src/commands/command-line.ts';
import { wordsOf } from './cli.ts';

/** The program with all its commands. */
export const newProgram = (): Command => program(() => new AbortController().signal);
export const allCommands = (command: Command): Command[] => [command, ...command.commands.flatMap(allCommands)];

/** The text that --help prints. */
export function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ ...command.configureOutput(), writeOut: (part) => (text += part) }).outputHelp();
  return text;
}

/** Parses arguments as the program does, and runs nothing. @returns whether a command would run, or --help is printed */
export async function parses(args: readonly string[]): Promise<boolean> {
  const root = newProgram();
  let ran = false;
  for (const each of allCommands(root)) {
    each.configureOutput({ writeOut: () => {}, writeErr: () => {} }).action(() => {
      ran = true;
    });
  }
  try {
    await root.parseAsync(args, { from: 'user' });
  } catch (error) {
    // --help is thrown, too.
    if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error;
    ran = true;
  }
  return ran;
}

const start = /npm run (?:--silent )?(?:prepro|train|sample|eval|compare|bench|gpt2)(?![\w:-])|npx gpt2 |^ {2}gpt2 /;
/** The rest of its line: a comment, in words after two spaces or a #; the end of a code span or of brackets; a pipe. */
const end = / {2}|\s#|`|\)|\s[|<>]\s/;

/** Every command in a text, once, as it stands there. */
export function documentedCommands(text: string): string[] {
  const found = text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .flatMap((line) => [...line.matchAll(new RegExp(start, 'g'))].map(({ index }) => line.slice(index).trimStart()))
    .map((command) => command.split(end)[0]!.trimEnd());
  return [...new Set(found)];
}

/**
 * The arguments that the program gets when the command is typed. npm keeps flags before a lone -- to itself.
 * @throws Error for a command whose flags would not reach the program
 */
export function argumentsOf(command: string): string[] {
  const words = wordsOf(command);
  if (words[0] !== 'npm') return words.slice(words.indexOf('gpt2') + 1);
  const [script, ...rest] = words.slice(2).filter((word, index) => !(index === 0 && word === '--silent'));
  const lone = rest.indexOf('--');
  const before = lone < 0 ? rest : rest.slice(0, lone);
  const kept = before.find((word) => word.startsWith('-'));
  if (kept !== undefined) throw new Error(`${command}: npm keeps ${kept} to itself without a -- before it`);
  return [...(script === 'gpt2' ? [] : [script!]), ...before, ...(lone < 0 ? [] : rest.slice(lone + 1))];
}
