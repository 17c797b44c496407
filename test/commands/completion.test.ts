// The completion scripts in the shells themselves: what is offered for a line that is being typed. A shell that is not here is a
// visible skip; bash always is.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { optionTable } from '../../src/train/option-table.ts';
import { Workplace } from '../support/cli.ts';

const missing = (shell: string) => spawnSync(shell, ['-c', 'true']).status !== 0;
const skipped = (shell: string) => (missing(shell) ? ` (skipped: no ${shell} here)` : '');

let place: Workplace;
const scripts: Record<string, string> = {};
beforeAll(() => {
  place = new Workplace();
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout, stderr } = place.run(['completion', shell]);
    expect([code, stderr]).toEqual([0, '']);
    scripts[shell] = stdout;
    writeFileSync(place.path(`gpt2.${shell}`), stdout);
  }
});
afterAll(() => place[Symbol.dispose]());

const run = (shell: string, script: string, ...args: string[]): string => {
  const { status, stdout, stderr } = spawnSync(shell, ['-c', script, ...args], { cwd: place.folder, encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  return stdout;
};

/** What bash offers for words of which the last is being typed. */
const inBash = (...words: string[]): string[] =>
  run(
    'bash',
    `source ./gpt2.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _gpt2; printf '%s\\n' "\${COMPREPLY[@]}"`,
    'bash',
    ...words,
  )
    .split('\n')
    .filter((word) => word !== '');

describe('bash', () => {
  it.each([
    [['gpt2', 'tr'], ['train']],
    [
      ['gpt2', 're'],
      ['report', 'replay'],
    ],
    [
      ['gpt2', 'prepro', 't'],
      ['text', 'tinystories', 'tinyshakespeare'],
    ],
    [
      ['gpt2', 'completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['gpt2', 'train', '--sch'], ['--schedule']],
    [['gpt2', 'train', '--batch', '4', '--tot'], ['--total-batch']],
    [
      ['gpt2', 'train', '--dtype', ''],
      ['fp32', 'tf32', 'bf16'],
    ],
    [['gpt2', 'train', '--dtype', 'b'], ['bf16']],
    [
      ['gpt2', 'train', '--dtype', '='],
      ['fp32', 'tf32', 'bf16'],
    ],
    [['gpt2', 'train', '--dtype', '=', 'f'], ['fp32']],
    [
      ['gpt2', 'export', '--format', ''],
      ['hf', 'llmc', 'gguf'],
    ],
    [['gpt2', 'train', '--model', 'd1'], ['d12']],
    [['gpt2', 'train', '--model', 'c'], ['custom']],
    [
      ['gpt2', 'bench', '--model', 'gpt2-'],
      ['gpt2-medium', 'gpt2-large', 'gpt2-xl'],
    ],
    [['gpt2', 'compare', 'run', '--reference', 'llmc-d6'], ['llmc-d6-fp32-b4-t64']],
    // A path goes to the shell's own completion of files.
    [['gpt2', 'train', '--model', 'runs/'], []],
    [['gpt2', 'prepro', 'text', '--val'], ['--val-fraction']],
    [['gpt2', '--verbose', 'doc'], ['doctor']],
    // A value that is not known is left to the shell's own completion of files.
    [['gpt2', 'train', '--data', ''], []],
    [['gpt2', 'train', '--data', '--'], []],
    [['gpt2', 'compare', 'run'], []],
    [['gpt2', 'nothing', '--ste'], []],
    // --serve may stand alone: flags go on.
    [['gpt2', 'train', '--serve', '--serve-h'], ['--serve-host']],
  ])('%j', (words, offered) => {
    expect(inBash(...words)).toEqual(offered);
  });

  it('offers every flag of train, and every command that --help names', () => {
    const flags = Object.values(optionTable).map(({ flag }) => flag);
    expect(inBash('gpt2', 'train', '--').sort()).toEqual([...flags, '--help', '--verbose'].sort());
    const help = place.run(['--help']).stdout;
    const commands = [
      ...help.slice(help.indexOf('Commands:'), help.indexOf('First steps:')).matchAll(/^ {2}([a-z]+) /gm),
    ].map((match) => match[1]!);
    expect(commands.length).toBeGreaterThan(10);
    expect(inBash('gpt2', '')).toEqual(commands);
  });

  it('is registered for gpt2, and nothing typed is carried out', () => {
    expect(run('bash', 'source ./gpt2.bash; complete -p gpt2')).toBe('complete -o default -F _gpt2 gpt2\n');
    expect(inBash('gpt2', 'train', '--data', '$(touch hacked)', '`touch hacked`')).toEqual([]);
    expect(run('bash', 'ls')).not.toContain('hacked');
  });
});

it('bash completes a function that runs npm, as --help shows it', () => {
  const { stdout } = place.run(['completion', '--help']);
  const defined = /^ {2}(gpt2\(\) .*)$/m.exec(stdout)![1]!;
  const npm = `npm() { printf '%s|' "$@"; }; ${defined}; gpt2 train --steps 1`;
  expect(run('bash', npm)).toBe('run|--silent|gpt2|--|train|--steps|1|');
});

describe.skipIf(missing('fish'))(`fish${skipped('fish')}`, () => {
  const inFish = (line: string): string[] =>
    run('fish', `source ./gpt2.fish; complete -C '${line}'`)
      .split('\n')
      .map((one) => one.split('\t')[0]!)
      .filter((word) => word !== '');
  it.each([
    ['gpt2 tr', ['train']],
    ['gpt2 prepro ti', ['tinyshakespeare', 'tinystories']],
    ['gpt2 train --dtype ', ['bf16', 'fp32', 'tf32']],
    ['gpt2 train --sch', ['--schedule']],
    ['gpt2 prepro text --val', ['--val-fraction']],
    ['gpt2 prepro --val', []],
    ['gpt2 bench --model gpt2-m', ['gpt2-medium']],
  ])('%s', (line, offered) => {
    expect(inFish(line).sort()).toEqual(offered);
  });
});

describe.skipIf(missing('zsh'))(`zsh${skipped('zsh')}`, () => {
  it('is a script of zsh', () => {
    run('zsh', 'zsh -n ./gpt2.zsh');
  });
});

it('another shell is refused by name', () => {
  const { code, stderr } = place.run(['completion', 'tcsh']);
  expect(code).toBe(2);
  expect(stderr).toMatch(/Allowed choices are bash, zsh, fish/);
});
