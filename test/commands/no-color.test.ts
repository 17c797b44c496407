// Colours on a terminal, and none where NO_COLOR is set or there is no terminal. `script` makes the terminal.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { command, tinyModel, Workplace } from '../support/cli.ts';

const noTerminal = spawnSync('script', ['--version']).status !== 0;
const skipped = noTerminal ? ' (skipped: no script of util-linux here)' : '';

const colour = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`);

it.skipIf(noTerminal)(`train and compare --plot${skipped}`, { timeout: 60_000 }, () => {
  using place = new Workplace();
  place.data();
  const onTerminal = (env: Record<string, string>, ...args: string[]) => {
    const line = [process.execPath, ...command, ...args].join(' ');
    const { NO_COLOR, FORCE_COLOR, ...rest } = process.env;
    const options = { cwd: place.folder, encoding: 'utf8', env: { ...rest, TERM: 'xterm-256color', ...env } } as const;
    return spawnSync('script', ['-qec', line, '/dev/null'], { ...options, input: '' }).stdout;
  };
  const train = ['train', '--data', 'data', '--out', 'run', '--overwrite', ...tinyModel, '--seq', '32', '--steps', '2'];
  for (const args of [train, ['compare', 'run', '--plot'], ['doctor']]) {
    expect(onTerminal({}, ...args)).toMatch(colour);
    expect(onTerminal({ NO_COLOR: '1' }, ...args)).not.toMatch(colour);
    expect(place.run(args, { NO_COLOR: '' }).stdout).not.toMatch(colour);
  }
});
