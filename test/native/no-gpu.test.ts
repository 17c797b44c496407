// What a machine without a usable GPU is told: one line that says what is missing, exit 1, Node alive.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { libraryPath } from '../../src/native/find-library.ts';
import { Workplace } from '../support/cli.ts';

const isBuilt = existsSync(libraryPath('cuda'));
const hasCompiler = spawnSync('cc', ['--version']).status === 0;

function hasGpu(): boolean {
  try {
    Device.open({ kind: 'cuda' }).close();
    return true;
  } catch {
    return false;
  }
}

const train = ['train', '--device', 'cuda', '--data', 'data', '--steps', '1', '--out', 'run'];

describe('a machine without a GPU', () => {
  it.skipIf(isBuilt)('is told how to build the library (where it is not built)', () => {
    using place = new Workplace();
    place.data();
    const { code, stderr } = place.run(train);
    expect(code).toBe(1);
    expect(stderr).toMatch(/^the cuda library is not built: there is no .*; run `npm run build:cuda`\n$/);
  });

  it.skipIf(!isBuilt || hasGpu())(
    'is told that there is no driver, or no device (needs the CUDA library, and no GPU)',
    () => {
      using place = new Workplace();
      place.data();
      const { code, stderr } = place.run(train);
      expect(code).toBe(1);
      expect(stderr).toMatch(/^no (NVIDIA driver|CUDA device) is .*\n$/);
      // Left to itself the program takes the CPU.
      const auto = place.run([
        ...train.map((word) => (word === 'cuda' ? 'auto' : word)),
        '--model',
        'd6',
        '--layers',
        '1',
      ]);
      expect(auto.code, auto.stderr).toBe(0);
      expect(auto.stdout).toContain('on cpu');
    },
  );

  // The CUDA runtime in the library opens libcuda.so.1 by name; one that says it is of another time stands in for it.
  it.skipIf(!isBuilt || !hasCompiler)('is told that its driver is too old (needs the CUDA library and cc)', () => {
    using place = new Workplace();
    place.data();
    const source = place.path('driver.c');
    writeFileSync(
      source,
      `int cuDriverGetVersion(int *version) { *version = 11040; return 0; }
       int cuInit(unsigned flags) { return (int)flags; }
       int cuGetProcAddress(const char *name, void **entry, int version, unsigned long long flags) {
         *entry = 0;
         return 500 + 0 * (int)(version + (int)flags + *name);
       }`,
    );
    execFileSync('cc', ['-shared', '-fPIC', '-o', place.path('libcuda.so.1'), source]);
    const { code, stderr } = place.run(train, { LD_LIBRARY_PATH: place.folder });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /the NVIDIA driver is too old: it knows CUDA 11\.4, this library needs \d+\.0; update the driver/,
    );
    expect(stderr.trim().split('\n').length).toBe(1);
  });
});
