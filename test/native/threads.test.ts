// The CPU library's threads where the system starts none at first (needs Linux and a C compiler).
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { loader, Workplace } from '../support/cli.ts';

const source = (path: string) => fileURLToPath(new URL(`../../src/${path}`, import.meta.url));

it.skipIf(process.platform !== 'linux')('threads that start after a first loop take no earlier work', () => {
  using place = new Workplace();
  // While REFUSE_THREADS is set, the system has no resources for a thread.
  writeFileSync(
    place.path('refuse.c'),
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
  expect(spawnSync('cc', ['-shared', '-fPIC', '-o', library, place.path('refuse.c'), '-ldl']).status).toBe(0);
  const script = `
    import { Device } from '${source('native/device.ts')}';
    import { tensorOf } from '${source('native/buffer.ts')}';
    import { geluForward, residualForward } from '${source('ops/ops.generated.ts')}';
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
  const { status, signal, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', loader, '--input-type=module', '--eval', script],
    { encoding: 'utf8', timeout: 60_000, env: { ...process.env, LD_PRELOAD: library } },
  );
  expect({ status, signal, stdout, stderr }).toEqual({
    status: 0,
    signal: null,
    stdout: '',
    stderr: '',
  });
});
