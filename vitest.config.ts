import { readdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type Reporter, type TestSpecification } from 'vitest/node';
import { built, root } from './test/support/built.ts';

const files = readdirSync(`${root}test`, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => `test/${name}`);
/** A change of the process by a test file, which later files of the process could see. */
const change =
  /\bvi\.(mock|doMock|stub\w+|spyOn|useFakeTimers)\b|\bprocess\.(chdir|umask|on|once)\(|\bprocess\.env\.\w+ = |\bCUDA_VISIBLE_DEVICES\b/;
const kindOf = (file: string) => {
  const text = readFileSync(root + file, 'utf8');
  if (/\bvi\.(mock|doMock|resetModules)\(/.test(text)) return 'mocking';
  return change.test(text) ? 'isolated' : 'shared';
};
const onGpu = process.env.GPT2_REQUIRE_CUDA === '1';
/** Node loads the built program in a tenth of the time that vitest takes. Only vitest can replace one of its modules. */
const deps = { external: [/\/dist\/.*\.js$/] };
/** A project adds to `include` below, so each leaves out the files of the others. */
const project = (name: string, options: object) => {
  const exclude = files.filter((file) => kindOf(file) !== name);
  return { extends: true, test: { name, exclude, ...options } } as const;
};

/** In each project whole runs come first: at the end, short files keep all workers busy. */
class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isShort = ({ moduleId }: TestSpecification) => Number(!/end-to-end|\.slow\.|course/.test(moduleId));
    const sorted = await super.sort(files);
    return sorted.sort((a, b) => a.project.name.localeCompare(b.project.name) || isShort(a) - isShort(b));
  }
}

/** Vitest says that a process died, but not in which file. */
const unfinished: Reporter = {
  onTestRunEnd(modules) {
    for (const { relativeModuleId, children } of modules) {
      const open = [...children.allTests('pending')].map(({ fullName }) => fullName);
      if (open.length > 0) console.error(`Not finished in ${relativeModuleId}: ${open.join('; ')}`);
    }
  },
};

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
    // On a GPU no file replaces modules.
    server: onGpu ? { deps } : undefined,
    include: ['test/**/*.test.ts'],
    reporters: ['default', unfinished],
    setupFiles: ['test/support/environment.ts'],
    // Two minutes of work take ten where other programs have the processors.
    testTimeout: process.env.GPT2_ROUNDS ? 0 : 600_000,
    hookTimeout: 600_000,
    pool: 'forks',
    // On two cores a third file runs while others wait: rank-failures.test.ts needs 33 s of CPU time, and waits longer.
    maxWorkers: 3,
    sequence: { sequencer: LongFirst },
    // Files that change nothing share a process, which imports the program once: imports took 25 s for 117 files; with a process each,
    // 148 s for 226 (both beside other work). Not on a GPU: a kernel that fails there spoils the process, and scripts/test-gpu gives
    // --maxWorkers, which projects ignore.
    projects: onGpu
      ? undefined
      : [
          project('shared', { isolate: false, server: { deps } }),
          project('isolated', { server: { deps } }),
          project('mocking', {}),
        ],
  },
});
