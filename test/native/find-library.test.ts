// Where a library is looked up, and what a machine without one is told.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { libraryFix, libraryPackages, libraryPath, type Place } from '../../src/native/find-library.ts';
import { Workplace } from '../support/cli.ts';

let folder: Workplace;
beforeEach(() => {
  vi.stubEnv('GPT2_LIBRARY', undefined);
  folder = new Workplace();
  write('node_modules/gpt2.ts/package.json', '{"name":"gpt2.ts","version":"1.2.3"}');
});
afterEach(() => {
  vi.unstubAllEnvs();
  folder[Symbol.dispose]();
});

function write(name: string, text = ''): string {
  const path = folder.path(name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
}

/** An installed package on some platform. */
const on = (platform: string, arch: string): Place => ({
  root: folder.path('node_modules/gpt2.ts'),
  platform,
  arch,
  installed: true,
});

describe('a library', () => {
  it('is the one of GPT2_LIBRARY, else of build/, else of the package of the platform', () => {
    const place = on('linux', 'arm64');
    const built = folder.path('node_modules/gpt2.ts/build/libgpt2-cpu.so');
    expect(libraryPath('cpu', place)).toBe(built);
    const packaged = write('node_modules/@gpt2.ts/linux-arm64/libgpt2-cpu.so');
    expect(libraryPath('cpu', place)).toBe(packaged);
    write('node_modules/gpt2.ts/build/libgpt2-cpu.so');
    expect(libraryPath('cpu', place)).toBe(built);
    vi.stubEnv('GPT2_LIBRARY', '/elsewhere/libgpt2-cpu.so');
    expect(libraryPath('cpu', place)).toBe('/elsewhere/libgpt2-cpu.so');
  });

  it.each([
    ['linux', 'x64', 'cpu', 'linux-x64/libgpt2-cpu.so'],
    ['linux', 'x64', 'cuda', 'linux-x64-cuda/libgpt2-cuda.so'],
    ['darwin', 'arm64', 'cpu', 'darwin-arm64/libgpt2-cpu.dylib'],
  ] as const)('of %s %s for %s is %s', (platform, arch, kind, file) => {
    for (const [name, { os, kind }] of Object.entries(libraryPackages)) {
      write(`node_modules/${name}/libgpt2-${kind}.${os === 'darwin' ? 'dylib' : 'so'}`);
    }
    expect(libraryPath(kind, on(platform, arch))).toBe(folder.path('node_modules/@gpt2.ts', file));
  });
});

describe('without a library, the advice is', () => {
  it('to install the package of the platform, or to build', () => {
    expect(libraryFix('cuda', on('linux', 'x64'))).toBe(
      'run `npm install ./gpt2.ts-linux-x64-cuda-1.2.3.tgz`, which scripts/build-packages.ts makes in a clone, or run `npm run build:cuda`',
    );
  });

  it('to build, where there is no package or in a clone', () => {
    expect(libraryFix('cpu', on('freebsd', 'x64'))).toBe('run `npm run build:cpu`');
    expect(libraryFix('cpu', { ...on('linux', 'x64'), installed: false })).toBe('run `npm run build:cpu`');
  });

  it('to correct GPT2_LIBRARY, if that is set', () => {
    vi.stubEnv('GPT2_LIBRARY', '/elsewhere.so');
    expect(libraryFix('cpu', on('linux', 'x64'))).toBe('correct or unset GPT2_LIBRARY');
  });
});
