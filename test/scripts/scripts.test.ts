// The scripts: builds with a job for each core, quickstart with tools that print their arguments, the table of a timeline.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { timesByKernel } from '../../scripts/timeline.ts';
import { packageRoot } from '../../src/base/package-root.ts';
import { spawned, Workplace } from '../support/cli.ts';

it('npm run build:cpu gives cmake the number of cores', () => {
  using place = new Workplace();
  place.file('cmake', '#!/bin/sh\necho "$@"\n', 0o755);
  const env = { ...process.env, PATH: `${place.folder}:${process.env.PATH}` };
  const { stdout, stderr } = spawned('npm', ['run', '-s', 'build:cpu'], { cwd: packageRoot, env });
  expect(stdout, stderr).toContain(`--build build --parallel ${availableParallelism()} --target gpt2-cpu\n`);
});

it('no other script builds with as many jobs as there are files', () => {
  const scripts = readdirSync(join(packageRoot, 'scripts')).map((name) => join(packageRoot, 'scripts', name));
  for (const path of [join(packageRoot, 'package.json'), ...scripts.filter((path) => statSync(path).isFile())]) {
    expect(readFileSync(path, 'utf8')).not.toMatch(/--parallel['"]?,? ['"]?--/);
  }
});

it.each([
  ['succeeds', '', 0, 3],
  ['fails', 'build', 7, 2],
])('quickstart installs, builds, and runs the command; one of them %s', (_, failing, code, count) => {
  using place = new Workplace();
  const script = `[ -z "${failing}" ] || case "$*" in *${failing}*) exit 7; esac\n`;
  for (const tool of ['node', 'cmake', 'c++', 'npm']) {
    place.file(tool, `#!/bin/sh\necho "$(basename "$0") $*"\n${script}`, 0o755);
  }
  const env = { PATH: `${place.folder}:/usr/bin:/bin` };
  const { status, stdout } = spawned(join(packageRoot, 'scripts', 'quickstart'), ['--text', 'a book.txt'], { env });
  const ran = ['npm ci --no-audit --no-fund', 'npm run build', 'node bin/gpt2.js quickstart --text a book.txt'];
  expect([status, stdout.trim().split('\n')]).toEqual([code, ran.slice(0, count)]);
});

const norm = 'gpt2::global_norm::norm_kernel(float*, double const*, int, float)';
const product = 'void gpt2::sm90::plain_kernel<true, (gpt2::Epilogue)0, 208>(gpt2::sm90::ProductMaps)';
const epoch = 1_795_000_000_000_000_000n;
const line = (start: number, end: number, name: string): string =>
  `${epoch + BigInt(1000 * start)}\t${epoch + BigInt(1000 * end)}\t7\t${name}\n`;
const step = (at: number): string =>
  [line(at + 5, at + 45, product), line(at + 40, at + 60, product), line(at + 70, at + 71, 'memcpy')].join('') +
  line(at + 95, at + 100, norm);

it('the last whole step goes from the end of a norm to the end of the next', () => {
  const table = timesByKernel(`# 3 records are lost\n${step(0)}${step(100)}${line(205, 390, product)}`);
  expect(table.split('\n').map((row) => row.trim().split(/ {2,}/))).toEqual([
    ['a step of 0.100 ms', 'calls', 'ms'],
    ['gpt2::sm90::plain_kernel<true, (gpt2::Epilogue)0, 208>', '2', '0.060'],
    ['gpt2::global_norm::norm_kernel', '1', '0.005'],
    ['memcpy', '1', '0.001'],
  ]);
  expect(() => timesByKernel(step(0))).toThrow('no whole step was recorded');
});
