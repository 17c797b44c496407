// The scripts: builds with a job for each core, quickstart with tools that do nothing, the table of a timeline.
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { timesByKernel } from '../../scripts/timeline.ts';
import { packageRoot } from '../../src/base/package-root.ts';
import { program } from '../../src/commands/command-line.ts';
import { Workplace, workplace } from '../support/cli.ts';
import { argumentsOf, documentedCommands } from '../support/documented.ts';

it('npm run build:cpu gives cmake the number of cores', () => {
  using place = new Workplace();
  writeFileSync(place.path('cmake'), '#!/bin/sh\necho "$@"\n', { mode: 0o755 });
  const PATH = `${place.folder}:${process.env.PATH}`;
  const { stdout, stderr } = spawnSync('npm', ['run', '-s', 'build:cpu'], {
    ...{ cwd: packageRoot, encoding: 'utf8', env: { ...process.env, PATH } },
  });
  expect(stdout, stderr).toContain(`--build build --parallel ${availableParallelism()} --target gpt2-cpu\n`);
});

it('no other script builds with as many jobs as there are files', () => {
  const scripts = readdirSync(join(packageRoot, 'scripts')).map((name) => join(packageRoot, 'scripts', name));
  const texts = [join(packageRoot, 'package.json'), ...scripts.filter((path) => statSync(path).isFile())].map((path) =>
    readFileSync(path, 'utf8'),
  );
  for (const text of texts) expect(text).not.toMatch(/--parallel['"]?,? ['"]?--/);
});

const place = workplace();

/** The output after the last command; npm prints its arguments too, and fails where they match. */
function quickstart(failing: string): { ran: string[]; said: string } {
  for (const tool of ['node', 'cmake', 'c++', 'npm']) {
    writeFileSync(place.path(tool), `#!/bin/sh\necho "ran $*"\ncase "$*" in ${failing}) exit 1; esac\n`);
    chmodSync(place.path(tool), 0o755);
  }
  const script = fileURLToPath(new URL('../../scripts/quickstart', import.meta.url));
  const text = execFileSync(script, { encoding: 'utf8', env: { PATH: `${place.folder}:/usr/bin:/bin` } });
  const lines = text.split('\n');
  const last = lines.findLastIndex((line) => line.startsWith('ran '));
  return { ran: lines.filter((line) => line.startsWith('ran ')), said: lines.slice(last + 1).join('\n') };
}

it.each([
  ['tinyshakespeare', 'nothing'],
  ['own-source', '*prepro*tinyshakespeare*'],
])('ends with what it made of %s, where it is, and commands that can be typed', async (set, failing) => {
  const { ran, said } = quickstart(failing);
  const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '');
  expect(said).toContain(`In ${root}:\n  data/${set}, data/${set}-char: `);
  const made = ran.flatMap((line) => /--out (\S+)/.exec(line)?.[1] ?? []);
  expect(made).toEqual(['runs/quickstart', 'runs/laptop']);
  for (const run of made) expect(said).toContain(`\n  ${run}: `);
  const next = documentedCommands(said);
  expect(next.length).toBe(3);
  expect(next[1]).toContain(`data/${set}-char`);
  for (const command of next) {
    const root = program(() => new AbortController().signal);
    let ran = false;
    for (const each of [...root.commands, ...root.commands.flatMap(({ commands }) => commands)]) {
      each.action(() => {
        ran = true;
      });
    }
    await root.parseAsync(argumentsOf(command), { from: 'user' });
    expect(ran, command).toBe(true);
  }
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
