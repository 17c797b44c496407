// Where a library is looked up, and what a machine without one, or without a usable GPU, is told: one line, exit 1.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { orElse } from '../../src/base/errors.ts';
import { Device } from '../../src/native/device.ts';
import { libraryFix, libraryPackages, libraryPath, type Place } from '../../src/native/find-library.ts';
import { withCode, workplace } from '../support/cli.ts';

const place = workplace('each');
beforeEach(() => {
  vi.stubEnv('GPT2_LIBRARY', undefined);
  place.file('node_modules/gpt2.ts/package.json', '{"name":"gpt2.ts","version":"1.2.3"}');
});

/** An installed package on some platform. */
const on = (platform: string, arch: string): Place => ({
  ...{ root: place.path('node_modules/gpt2.ts'), platform, arch, installed: true },
});

describe('a library', () => {
  it('is the one of GPT2_LIBRARY, else of build/, else of the package of the platform', () => {
    const arm = on('linux', 'arm64');
    const built = place.path('node_modules/gpt2.ts/build/libgpt2-cpu.so');
    expect(libraryPath('cpu', arm)).toBe(built);
    const packaged = place.file('node_modules/@gpt2.ts/linux-arm64/libgpt2-cpu.so', '');
    expect(libraryPath('cpu', arm)).toBe(packaged);
    place.file('node_modules/gpt2.ts/build/libgpt2-cpu.so', '');
    expect(libraryPath('cpu', arm)).toBe(built);
    vi.stubEnv('GPT2_LIBRARY', '/elsewhere/libgpt2-cpu.so');
    expect(libraryPath('cpu', arm)).toBe('/elsewhere/libgpt2-cpu.so');
  });

  it.each([
    ['linux', 'x64', 'cpu', 'linux-x64/libgpt2-cpu.so'],
    ['linux', 'x64', 'cuda', 'linux-x64-cuda/libgpt2-cuda.so'],
    ['darwin', 'arm64', 'cpu', 'darwin-arm64/libgpt2-cpu.dylib'],
  ] as const)('of %s %s for %s is %s', (platform, arch, kind, file) => {
    for (const [name, { os, kind }] of Object.entries(libraryPackages)) {
      place.file(`node_modules/${name}/libgpt2-${kind}.${os === 'darwin' ? 'dylib' : 'so'}`, '');
    }
    expect(libraryPath(kind, on(platform, arch))).toBe(place.path('node_modules/@gpt2.ts', file));
  });
});

describe('without a library, the advice is', () => {
  it('to install the package of the platform, or to build', () => {
    expect(libraryFix('cuda', on('linux', 'x64'))).toBe(
      'run `npm install ./gpt2.ts-linux-x64-cuda-1.2.3.tgz`, which scripts/build-packages.ts makes in a clone, or run `npm run build:cuda`',
    );
  });

  it('to build, where there is no package or in a clone; to correct GPT2_LIBRARY, if that is set', () => {
    expect(libraryFix('cpu', on('freebsd', 'x64'))).toBe('run `npm run build:cpu`');
    expect(libraryFix('cpu', { ...on('linux', 'x64'), installed: false })).toBe('run `npm run build:cpu`');
    vi.stubEnv('GPT2_LIBRARY', '/elsewhere.so');
    expect(libraryFix('cpu', on('linux', 'x64'))).toBe('correct or unset GPT2_LIBRARY');
  });
});

const isBuilt = existsSync(libraryPath('cuda'));
const hasCompiler = spawnSync('cc', ['--version']).status === 0;

const hasGpu = orElse(false, () => {
  Device.open({ kind: 'cuda' }).close();
  return true;
});

const train = 'train --device cuda --data data --steps 1 --out run';

describe('a machine without a GPU', () => {
  beforeEach(() => void place.data());

  it.skipIf(isBuilt)('is told how to build the library (where it is not built)', () => {
    const { stderr } = withCode(1, place.run(train));
    expect(stderr).toMatch(/^the cuda library is not built: there is no .*; run `npm run build:cuda`\n$/);
  });

  it.skipIf(!isBuilt || hasGpu)(
    'is told that there is no driver, or no device (needs the CUDA library, and no GPU)',
    () => {
      expect(withCode(1, place.run(train)).stderr).toMatch(/^no (NVIDIA driver|CUDA device) is .*\n$/);
      // Left to itself the program takes the CPU.
      expect(place.ok(`${train.replace('cuda', 'auto')} --model d6 --layers 1`).stdout).toContain('on cpu');
    },
  );

  // The CUDA runtime in the library opens libcuda.so.1 by name; one that says it is of another time stands in for it.
  it.skipIf(!isBuilt || !hasCompiler)('is told that its driver is too old (needs the CUDA library and cc)', () => {
    const source = place.file(
      'driver.c',
      `int cuDriverGetVersion(int *version) { *version = 11040; return 0; }
       int cuInit(unsigned flags) { return (int)flags; }
       int cuGetProcAddress(const char *name, void **entry, int version, unsigned long long flags) {
         *entry = 0;
         return 500 + 0 * (int)(version + (int)flags + *name);
       }`,
    );
    execFileSync('cc', ['-shared', '-fPIC', '-o', place.path('libcuda.so.1'), source]);
    const { stderr } = withCode(1, place.run(train, { LD_LIBRARY_PATH: place.folder }));
    expect(stderr).toMatch(/driver is too old: it knows CUDA 11\.4, this library needs \d+\.0; update the driver/);
    expect(stderr.trim().split('\n').length).toBe(1);
  });
});
