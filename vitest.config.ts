import { readdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { built, root } from './test/support/built.ts';

const files = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => `test/${name}`);
/** A change of the process by a test file, which later files of the process could see. */
const change =
  /\bvi\.(mock|doMock|stub\w+|spyOn|useFakeTimers)\b|\bprocess\.(chdir|umask|on|once)\(|\bprocess\.env\.\w+ = /;
/** Whole runs and tests of commands import little: the programs that they start do the work. */
const starting = /^test\/(gpu|end-to-end|commands|lab)\/|\.slow\.test\.ts$/;
const isIsolated = (file: string) => starting.test(file) || change.test(readFileSync(root + file, 'utf8'));
const isolated = files.filter(isIsolated);
const shared = files.filter((file) => !isIsolated(file));

export default defineConfig({
  // Kernel cards import the package by its name.
  resolve: { alias: { 'gpt2.ts': `${root}src/index.ts` } },
  plugins: [
    {
      name: 'built',
      enforce: 'pre',
      resolveId: (name, importer = '') => {
        const path = name.startsWith('.') ? resolve(dirname(importer), name) : name;
        return built(path) === path ? undefined : built(path);
      },
    },
    {
      name: 'exclude',
      // Projects do not get --exclude from the command line.
      configureVitest: ({ project, vitest }) => void project.config.exclude.push(...(vitest.config.cliExclude ?? [])),
    },
  ],
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/support/environment.ts'],
    // Two minutes of work take ten where other programs have the processors.
    testTimeout: process.env.GPT2_ROUNDS ? 0 : 600_000,
    hookTimeout: 600_000,
    pool: 'forks',
    maxWorkers: 2,
    // Files that change nothing share a process, which imports the program once: imports took 25 s for 117 files; with a process each,
    // 148 s for 226 (both beside other work). Not on a GPU: a kernel that fails there spoils the process, and scripts/test-gpu gives
    // --maxWorkers, which projects ignore.
    projects:
      process.env.GPT2_REQUIRE_CUDA === '1'
        ? undefined
        : [
            // A project adds to `include` above, so each leaves out the files of the other.
            { extends: true, test: { name: 'shared', isolate: false, exclude: isolated } },
            { extends: true, test: { name: 'isolated', exclude: shared } },
          ],
  },
});
