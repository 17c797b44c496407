// Colours on a terminal, and none where NO_COLOR is set or there is no terminal. `script` makes the terminal.
import { expect, it } from 'vitest';
import { command, spawned, tinyModel, Workplace } from '../support/cli.ts';

const noTerminal = spawned('script', ['--version']).status !== 0;
const skipped = noTerminal ? ' (skipped: no script of util-linux here)' : '';

const colour = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`);

it.skipIf(noTerminal)(`train and compare --plot${skipped}`, () => {
  using place = new Workplace();
  place.data();
  // Only what a case names is set: Node looks at FORCE_COLOR, NODE_DISABLE_COLORS, CI and a dozen more besides.
  const output = (file: string, args: readonly string[], environment: Record<string, string>) => {
    const env = { PATH: process.env.PATH, TERM: 'xterm-256color', ...environment };
    return spawned(file, args, { cwd: place.folder, env, input: '' }).stdout;
  };
  const onTerminal = (args: readonly string[], environment = {}) =>
    output('script', ['-qec', [process.execPath, ...command, ...args].join(' '), '/dev/null'], environment);
  const train = ['train', '--data', 'data', '--out', 'run', '--overwrite', ...tinyModel, '--seq', '32', '--steps', '2'];
  for (const args of [train, ['compare', 'run', '--plot'], ['doctor']]) {
    expect(onTerminal(args)).toMatch(colour);
    expect(onTerminal(args, { NO_COLOR: '1' })).not.toMatch(colour);
    expect(output(process.execPath, [...command, ...args], {})).not.toMatch(colour);
  }
});
