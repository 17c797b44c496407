// Builds of the libraries start a job for each core, and no more.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/base/package-root.ts';
import { Workplace } from '../support/cli.ts';

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
