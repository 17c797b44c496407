// The end of a process whose main thread hangs, whose streams fail or whose threads do not start.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { Workplace } from '../support/cli.ts';

const program = (text: string, env: Record<string, string> = {}) => {
  const args = [...moduleLoader, '--input-type=module', '--eval', text];
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, args, {
    ...{ encoding: 'utf8', timeout: 100_000, killSignal: 'SIGKILL', env: { ...process.env, ...env } },
  });
  return { status, signal, stdout, stderr };
};

it.each<[what: string, then: string, milliseconds: number, status: number, stderr: string]>([
  ['ends a process that is stuck', 'for (;;);', 500, 1, 'rank 1 is gone\n'],
  ['leaves alone one that ends', 'process.exitCode = 3', 60_000, 3, ''],
  ['ends one stuck at its end', "process.on('exit', () => { for (;;); }); process.exit(3)", 500, 1, 'rank 1 is gone\n'],
])('%s', (_, then, milliseconds, status, stderr) => {
  const start = `import { endLater } from '${moduleOf('native/last-resort.ts')}'; endLater('cpu', 'rank 1 is gone', ${milliseconds})`;
  expect(program(`${start}; ${then}`)).toMatchObject({ status, stderr });
});

// Node unloads libraries when it exits, maybe before the thread that waits has begun: then the process crashed.
it.skipIf(process.platform !== 'linux')('its code stays in memory when the library is unloaded', () => {
  const { stdout, stderr } = program(`
    import { readFileSync } from 'node:fs';
    import { libraryPath } from '${moduleOf('native/find-library.ts')}';
    import { loadShared } from '${moduleOf('native/koffi.ts')}';
    loadShared(libraryPath('cpu')).unload();
    console.log(readFileSync('/proc/self/maps', 'utf8').includes('libgpt2-cpu'));
  `);
  expect({ stdout, stderr }).toEqual({ stdout: 'true\n', stderr: '' });
});

it('refuses a text for which there is no memory', () => {
  const { status, signal, stdout } = program(`
    import { loadLibrary } from '${moduleOf('native/library.ts')}';
    const text = new Uint8Array(8);
    console.log(loadLibrary('cpu').endLater({ text, bytes: 2 ** 52, milliseconds: 1, exitCode: 1 }));
  `);
  // GPT2_OUT_OF_MEMORY
  expect({ status, signal, stdout }).toEqual({ status: 0, signal: null, stdout: '3\n' });
});

it.each([1, 2])('a process whose descriptor %i fails ends with its exit code', (descriptor) => {
  // A closed descriptor fails as a full quota does: fsync(2) gives an error other than EINVAL.
  const ended = program(`
    import { closeSync } from 'node:fs';
    await import('${moduleOf('native/library.ts')}');
    process.exitCode = 3;
    process.once('beforeExit', () => closeSync(${descriptor}));
  `);
  expect(ended).toMatchObject({ status: 3, signal: null, stderr: '' });
});

it.skipIf(process.platform !== 'linux')('threads that start after a first loop take no earlier work', () => {
  using place = new Workplace();
  // While REFUSE_THREADS is set, the system has no resources for a thread.
  const refusing = place.file(
    'refuse.c',
    `#define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <pthread.h>
    #include <stdlib.h>
    int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
      int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
      return getenv("REFUSE_THREADS") ? EAGAIN : create(thread, attributes, start, argument);
    }`,
  );
  const library = place.path('refuse.so');
  expect(spawnSync('cc', ['-shared', '-fPIC', '-o', library, refusing, '-ldl']).status).toBe(0);
  const script = `
    import { Device } from '${moduleOf('native/device.ts')}';
    import { tensorOf } from '${moduleOf('native/tensor.ts')}';
    import { geluForward, residualForward } from '${moduleOf('ops/ops.generated.ts')}';
    const count = 1 << 20;
    for (let round = 0; round < 10; round++) {
      const device = Device.open({ kind: 'cpu', threads: 4 });
      const a = tensorOf(device, Float32Array.from({ length: count }, (_, i) => i));
      process.env.REFUSE_THREADS = '1';
      residualForward(device, { out: tensorOf(device, new Float32Array(count)), a, b: a });
      delete process.env.REFUSE_THREADS;
      const out = tensorOf(device, new Float32Array(count));
      geluForward(device, { out, in: a });
      const wrong = out.read().findIndex((value, i) => Math.abs(value - i) > 0.2);
      if (wrong >= 0) console.log('element', wrong, 'of round', round);
      device.close();
    }`;
  expect(program(script, { LD_PRELOAD: library })).toEqual({ status: 0, signal: null, stdout: '', stderr: '' });
});
