// From CUDA source to a cubin, without a GPU: what the compiler says, what the cache keeps, how processes share it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  truncateSync,
  utimesSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { findNvrtc } from '../../src/native/nvrtc.ts';
import { type Tensor, tensorOf } from '../../src/native/tensor.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { compiledFile, compileKernels, type KernelSource } from '../../src/ops/kernels/compile.ts';
import { cachedCubin } from '../../src/ops/kernels/cubin-cache.ts';
import { emulated } from '../../src/ops/kernels/emulated.ts';
import { loadKernels } from '../../src/ops/kernels/kernels.ts';
import { mutate } from '../fuzz/mutate.ts';
import { command, withCode, workplace } from '../support/cli.ts';
import { rounds } from '../support/rounds.ts';
import { until } from '../support/until.ts';

const hasNvcc = ['nvcc', '/usr/local/cuda/bin/nvcc'].some((path) => spawnSync(path, ['--version']).status === 0);
const hasCompiler = hasNvcc || findNvrtc() !== undefined;

const place = workplace('each');
let cache: string;
beforeEach(() => {
  vi.stubEnv('XDG_CACHE_HOME', place.path('cache'));
  cache = place.path('cache', 'gpt2.ts', 'kernels');
});
afterEach(() => {
  vi.unstubAllEnvs();
});

const add = `__global__ void add(float *out, const float *a, const float *b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
`;
const compiled = (source: KernelSource) => compiledFile(source, '9.0');
const symbols = (path: string) => readFileSync(path, 'latin1').match(/_Z\w+/g);

describe.skipIf(!hasCompiler)('a file of kernels (needs nvcc or NVRTC)', () => {
  it('becomes a cubin, whose kernels carry their types', () => {
    const path = compiled({
      file: place.file(
        'add.cu',
        `#include <cuda_bf16.h>\n#include <cstdint>\n#include <cmath>\n#include <cuda_pipeline.h>\n${add}\n__device__ float most = INFINITY;`,
      ),
    });
    expect(readFileSync(path).subarray(0, 4).toString('latin1')).toBe('\x7fELF');
    expect(symbols(path)).toContain('_Z3addPfPKfS1_i');
    expect(symbols(compiled({ source: `extern "C" ${add}` }))).toContain('_Z3addPfPKfS1_i');
  });

  it('is compiled once, and again when anything changes that it depends on', () => {
    const path = place.file('add.cu', `#include "size.h"\n${add.replace('i < n', 'i < n * SIZE * TWICE')}`);
    place.file('size.h', '#include "more.h"\n#define SIZE MORE');
    const more = place.file('more/more.h', '#define MORE 1');
    const source = { file: path, includes: [place.path('more')], defines: { TWICE: 2 } };
    const first = compiled(source);
    const { ino } = statSync(first);
    expect(compiled(source)).toBe(first);
    expect(statSync(first).ino).toBe(ino);
    const seen = new Set([first]);
    const isNew = (path: string) => !seen.has(path) && Boolean(seen.add(path));
    expect(isNew(compiled({ ...source, defines: { TWICE: 3 } }))).toBe(true);
    place.file(more, '#define MORE 2');
    expect(isNew(compiled(source))).toBe(true);
    expect(isNew(compiledFile(source, '8.0'))).toBe(true);
    expect(readdirSync(cache)).toHaveLength(4);
  });

  it('instantiates templates', () => {
    const source = 'template <class T, int K> __global__ void scale(T *x) { x[threadIdx.x] *= K; }';
    const path = compiled({ source, instantiate: ['scale<float, 256>', 'scale<int, 2>'] });
    expect(symbols(path)).toEqual(expect.arrayContaining(['_Z5scaleIfLi256EEvPT_', '_Z5scaleIiLi2EEvPT_']));
  });

  it('shows where an error is', () => {
    const path = place.file('bad.cu', '__global__ void bad(float *out) {\n  out[0] = missing;\n}\n');
    expect(() => compiled({ file: path })).toThrow(
      `${path}:2: error: identifier "missing" is undefined\n    out[0] = missing;\n             ^`,
    );
    const { stderr } = withCode(1, place.run(['kernel', 'build', path, '--gpu', '9.0']));
    expect(stderr).toBe(`${path}:2: error: identifier "missing" is undefined\n    out[0] = missing;\n             ^\n`);
    expect(existsSync(cache) ? readdirSync(cache) : []).toEqual([]);
  });

  it.skipIf(!findNvrtc())('explains host code, which NVRTC does not know (needs NVRTC)', () => {
    expect(() => compiled({ source: `${add}void run(float *x) {\n  cudaMalloc(&x, 4);\n}\n` })).toThrow(
      /source\.cu:6: error: .*cudaMalloc.*\n[\s\S]*\nsource\.cu:6: this is code of the host: leave only kernels /,
    );
  });

  it('says which header has the 16-bit types', () => {
    for (const [type, header] of [
      ['__nv_bfloat16', 'cuda_bf16.h'],
      ['__half', 'cuda_fp16.h'],
    ]) {
      expect(() => compiled({ source: `${add}using other = ${type};\n` })).toThrow(
        new RegExp(`"${type}" is undefined[\\s\\S]*\nsource\\.cu: write #include <${header}> for this type$`),
      );
    }
  });

  it('names a GPU that the compiler does not know', () => {
    expect(() => compiledFile({ source: add }, '1.0')).toThrow(
      /^(nvcc|NVRTC) \S+ cannot compile for compute capability 1\.0: /,
    );
  });

  it('can be compiled by several processes at once', async () => {
    const cu = place.file('add.cu', add);
    const start = () =>
      spawn(process.execPath, [...command, 'kernel', 'build', cu, '--gpu', '9.0', '--out', 'x'], { cwd: place.folder });
    const codes = await Promise.all([start(), start(), start()].map(async (child) => (await once(child, 'close'))[0]));
    expect(codes).toEqual([0, 0, 0]);
    expect(readdirSync(cache)).toHaveLength(1);
    expect(statSync(place.path('x')).size).toBe(statSync(join(cache, readdirSync(cache)[0]!)).size);
  });
});

it('kernel build makes a file for a CPU, and says first that a source is missing', async () => {
  const path = place.file('add.cu', add);
  expect(place.run(['kernel', 'build', path, '--cpu'])).toMatchObject({ code: 0, stdout: 'wrote add.so\n' });
  using device = Device.open({ kind: 'cpu' });
  const [out, a] = [0, 1].map((value) => tensorOf(device, new Float32Array(3).fill(value))) as [Tensor, Tensor];
  loadKernels<'add'>(device, place.path('add.so')).add.launch({ grid: 1, block: 32 }, out, a, a, 3);
  expect(out.read()).toEqual(Float32Array.of(2, 2, 2));
  expect(() => loadKernels(device, path)).toThrow(/is not a file of kernels compiled for a CPU: /);
  expect(place.run(['kernel', 'build', 'none.cu']).stderr).toMatch(/^the source none\.cu cannot be read: /);
});

it('without a compiler it says how to get one', () => {
  for (const name of ['PATH', 'CUDA_HOME', 'CUDA_PATH', 'GPT2_NVRTC_LIB'])
    vi.stubEnv(name, name === 'PATH' ? '' : undefined);
  if (existsSync('/usr/local/cuda')) return;
  expect(() => compiled({ source: add })).toThrow(
    /^there is no compiler for CUDA: install one \(pip install nvidia-cuda-nvrtc/,
  );
});

it('a named NVRTC that is none is refused', () => {
  vi.stubEnv('GPT2_NVRTC_LIB', place.file('libnvrtc.so', 'text'));
  expect(() => compiled({ source: add })).toThrow(
    /libnvrtc\.so is not a usable NVRTC: .*; correct or unset GPT2_NVRTC_LIB$/,
  );
});

it.each<[KernelSource, string]>([
  [{}, 'kernels need either file or source'],
  [{ file: 'a.cu', source: '' }, 'source takes a text, not ""'],
  [{ fil: 'a.cu' } as never, 'there is no option "fil"; did you mean "file"?'],
  [{ file: 'none.cu' }, 'the source none.cu cannot be read: ENOENT: no such file or directory; name a .cu file'],
])('%j is refused', (source, message) => {
  expect(() => compiled(source)).toThrow(message);
});

describe('the cache', () => {
  it('removes what was used least recently, and what killed processes left', () => {
    const paths = ['old', 'newer', 'used'].map((name, index) => {
      const path = cachedCubin(name, () => Buffer.from(name));
      if (name !== 'old') truncateSync(path, 130 << 20);
      utimesSync(path, index, index);
      return path;
    });
    utimesSync(place.file(join(cache, 'killed.1.2.tmp'), ''), 1, 1);
    place.file(join(cache, 'running.1.2.tmp'), '');
    expect(cachedCubin('old', () => Buffer.from('old'))).toBe(paths[0]);
    cachedCubin('last', () => Buffer.from('last'));
    const names = readdirSync(cache).map((name) => name.replace(/\.[0-9a-f]{64}/, ''));
    expect(names.sort()).toEqual(['last.cubin', 'old.cubin', 'running.1.2.tmp', 'used.cubin']);
  });

  it.each([
    [0o777, 'can be written by other users'],
    [0o700, 'belongs to another user (uid 12345)'],
  ])('of mode %o is refused if it %s', (mode, fault) => {
    expect(existsSync(cachedCubin('key', () => Buffer.of(1)))).toBe(true);
    for (const folder of [cache, dirname(cache)]) {
      expect(statSync(folder).mode & 0o777).toBe(0o700);
      chmodSync(folder, mode);
      if (mode === 0o700 && process.getuid!() !== 0) return;
      if (mode === 0o700) chownSync(folder, 12345, 12345);
      expect(() => cachedCubin('key', () => Buffer.of(1))).toThrow(
        `the cache folder ${folder} ${fault}, and its files are run as code: remove it, or name another cache in XDG_CACHE_HOME`,
      );
      chownSync(folder, process.getuid!(), process.getgid!());
      chmodSync(folder, 0o700);
    }
  });

  it('that cannot be written is named', () => {
    vi.stubEnv('XDG_CACHE_HOME', place.file('taken', ''));
    expect(() => cachedCubin('key', () => Buffer.of(1))).toThrow(
      /^cannot write the compiled kernels to .*taken\/gpt2\.ts\/kernels: .*; name another cache in XDG_CACHE_HOME$/,
    );
  });
});

describe('on a CPU', () => {
  /** A compiler that notes in a file each time that it makes an object. */
  const noting = (name: string, does = 'exec g++ "$@"'): string =>
    place.script(name, `case "$*" in *" -c "*) echo >> ${place.path('compiled')};; esac\n${does}`);
  const compiles = (): number =>
    existsSync(place.path('compiled')) ? readFileSync(place.path('compiled'), 'utf8').length : 0;
  const source = { source: '__global__ void k(float *out) { out[0] = 7; }', checks: false };

  it('damaged entries of the cache are compiled again, and never run', async () => {
    vi.stubEnv('CXX', noting('cxx'));
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const path = compiledFile(source, 'cpu');
    const whole = readFileSync(path);
    const trials = 4 * rounds;
    for (let trial = 0; trial < trials; trial++) {
      let damaged: Uint8Array = trial === 0 ? Buffer.of() : whole;
      for (let seed = trial; whole.equals(damaged); seed += trials) damaged = mutate(new Random(seed), [whole]);
      place.file(path, damaged);
      using kernels = await compileKernels<'k'>(device, source);
      const out = tensorOf(device, new Float32Array(1));
      kernels.k.launch({ grid: 1, block: 1 }, out);
      expect([out.read()[0], compiles()], `trial ${trial}`).toEqual([7, trial + 2]);
      expect(readFileSync(path).equals(whole)).toBe(true);
    }
  });

  it('compiles again for another compiler, another one in its place, other headers and other variables', () => {
    const expectCompiled = (count: number, what: string) => {
      for (const _ of [1, 2]) compiledFile(source, 'cpu');
      expect(compiles(), what).toBe(count);
    };
    vi.stubEnv('CXX', noting('cxx'));
    expectCompiled(1, 'at first');
    vi.stubEnv('CXX', noting('other'));
    expectCompiled(2, 'another path');
    noting('other', 'exec g++ -g "$@"');
    expectCompiled(3, 'another program there');
    vi.stubEnv('CPATH', place.folder);
    expectCompiled(4, 'CPATH');
    vi.spyOn(emulated, 'headers').mockReturnValue(['changed']);
    expectCompiled(5, 'headers');
    vi.restoreAllMocks();
  });

  it('a quote in the path of the cache starts no program', async () => {
    vi.stubEnv('XDG_CACHE_HOME', place.path("it's $(touch started) 'it"));
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const { k } = await compileKernels<'k'>(device, { source: '__global__ void k(float *out) {\n  out[1] = 7;\n}' });
    const out = tensorOf(device, new Float32Array(1));
    expect(() => k.launch({ grid: 1, block: 1 }, out)).toThrow(/writes out\[1\], .* at source\.cu:2/);
    expect(existsSync('started')).toBe(false);
  });

  it('removes the temporary folders of compiles that were killed, and no others', async () => {
    vi.stubEnv('TMPDIR', place.path('temporary'));
    const path = place.file('temporary/k.cu', source.source);
    const child = spawn(process.execPath, [...command, 'kernel', 'build', path, '--cpu'], {
      env: { ...process.env, CXX: noting('waits', 'case "$*" in *" -c "*) exec sleep 30;; esac; exec g++ "$@"') },
    });
    const folders = () => readdirSync(place.path('temporary')).filter((name) => name.startsWith('gpt2.ts-'));
    const [left] = await until(() => {
      expect(compiles()).toBe(1);
      return folders();
    });
    // Nobody knows whether a process of another machine runs.
    const others = [left!.replace(hostname(), 'other'), 'gpt2.ts-kernel-by-hand'];
    for (const name of others) place.file(`temporary/${name}/k.cpp`, '');
    compiledFile(source, 'cpu');
    expect(folders()).toContain(left);
    child.kill('SIGKILL');
    await once(child, 'exit');
    compiledFile({ ...source, defines: { AGAIN: 1 } }, 'cpu');
    expect(folders().sort()).toEqual(others.sort());
  });
});

describe.skipIf(!hasNvcc || findNvrtc() !== undefined)('nvcc (needs it, and no NVRTC)', () => {
  it.each<[string, KernelSource, string]>([
    ['macro', { defines: { A: '`touch started`' } }, 'nvcc cannot take the macro "A=`touch started`": it runs a shell'],
    ['folder', { includes: ['/$(touch started)'] }, 'nvcc cannot take the path "/$(touch started)": it runs a shell'],
  ])('does not get a %s that a shell would expand', (_, given, message) => {
    expect(() => compiled({ source: add, ...given })).toThrow(message);
    expect(existsSync('started')).toBe(false);
  });
});
