// Ends a process whose main thread hangs, with a message; a process that ends normally is not delayed.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));
const program = (text: string) =>
  spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', text], {
    encoding: 'utf8',
    timeout: 100_000,
  });
const run = (then: string, milliseconds = 500) =>
  program(
    `import { endLater } from '${source('native/last-resort.ts')}'; endLater('cpu', 'rank 1 is gone', ${milliseconds}); ${then}`,
  );

it('ends a process that is stuck', () => {
  const { status, stderr } = run('for (;;);');
  expect(status).toBe(1);
  expect(stderr).toBe('rank 1 is gone\n');
});

it('leaves alone one that ends', () => {
  const { status, stderr } = run('process.exitCode = 3', 60_000);
  expect(status).toBe(3);
  expect(stderr).toBe('');
});

// Node unloads libraries when it exits, maybe before the thread that waits has begun: then the process crashed.
it.skipIf(process.platform !== 'linux')('its code stays in memory when the library is unloaded', () => {
  const { stdout, stderr } = program(`
    import { readFileSync } from 'node:fs';
    import { libraryPath } from '${source('native/find-library.ts')}';
    import { loadShared } from '${source('native/koffi.ts')}';
    loadShared(libraryPath('cpu')).unload();
    console.log(readFileSync('/proc/self/maps', 'utf8').includes('libgpt2-cpu'));
  `);
  expect({ stdout, stderr }).toEqual({ stdout: 'true\n', stderr: '' });
});

it('ends one that is stuck on its way out', () => {
  const { status, stderr } = run("process.on('exit', () => { for (;;); }); process.exit(3)");
  expect(status).toBe(1);
  expect(stderr).toBe('rank 1 is gone\n');
});

it('refuses a text for which there is no memory', () => {
  const { status, signal, stdout } = program(`
    import { loadLibrary } from '${source('native/library.ts')}';
    const text = new Uint8Array(8);
    console.log(loadLibrary('cpu').endLater({ text, bytes: 2 ** 52, milliseconds: 1, exitCode: 1 }));
  `);
  // GPT2_OUT_OF_MEMORY
  expect({ status, signal, stdout }).toEqual({ status: 0, signal: null, stdout: '3\n' });
});
