// The compiler's results for kernels: registers and spills, what fits on a multiprocessor, PTX and SASS with the source's lines.

import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { orElse } from '../../src/base/errors.ts';
import { parsePtx, parseResources, parseSass } from '../../src/lab/compiled-kernels.ts';
import { type Limiter, occupancyOf } from '../../src/lab/occupancy.ts';
import { callsWithoutGpu, sizesOf, stepCalls } from '../../src/lab/step-calls.ts';
import { Device } from '../../src/native/device.ts';
import { demangled, findTool, toolkits } from '../../src/native/nvrtc.ts';
import { findCompiler } from '../../src/ops/kernels/compiler.ts';
import { variantNamed } from '../../src/ops/variants.ts';
import { quiet, workplace } from '../support/cli.ts';
import { newKernels } from '../support/lab.ts';

const place = workplace('each');

describe('blocks on a multiprocessor', () => {
  it.each<[string, [threads: number, registers: number, shared: number], [blocks: number, warps: number], Limiter[]]>([
    // 65,536 / (64 x 256).
    ['9.0', [256, 64, 0], [4, 32], ['registers']],
    // A warp takes 33 x 32 registers in units of 256: 1,280; a quarter of the SM's holds 12 such warps.
    ['9.0', [256, 33, 0], [6, 48], ['registers']],
    ['9.0', [256, 32, 0], [8, 64], []],
    ['9.0', [1024, 64, 0], [1, 32], ['registers']],
    // 255 registers are 8,192 a warp: 8 warps.
    ['9.0', [256, 255, 0], [1, 8], ['registers']],
    ['9.0', [1024, 65, 0], [0, 0], ['registers']],
    ['9.0', [32, 16, 0], [32, 32], ['blocks']],
    ['9.0', [768, 24, 0], [2, 48], ['threads']],
    // 228 KiB / (48 + 1 KiB).
    ['9.0', [256, 32, 48 << 10], [4, 32], ['shared memory']],
    ['9.0', [256, 32, 227 << 10], [1, 8], ['shared memory']],
    ['9.0', [256, 32, (227 << 10) + 1], [0, 0], ['shared memory']],
    ['8.0', [256, 32, 48 << 10], [3, 24], ['shared memory']],
    ['8.6', [32, 16, 0], [16, 16], ['blocks']],
    ['8.9', [32, 16, 0], [24, 24], ['blocks']],
    // Nothing is reserved: 64 KiB / 32 KiB.
    ['7.5', [128, 32, 32 << 10], [2, 8], ['shared memory']],
    ['12.0', [1024, 40, 0], [1, 32], ['registers', 'threads']],
  ])(
    '%s, threads, registers and shared bytes %j: blocks and warps %j',
    (gpu, [threads, registers, shared], fits, limiters) => {
      const { blocks, warps, limiters: own } = occupancyOf(gpu, { threads, registers, shared });
      expect([blocks, warps]).toEqual(fits);
      expect(own).toEqual(limiters);
    },
  );

  it('are not known of every GPU', () => {
    expect(() => occupancyOf('6.1', { threads: 32, registers: 16, shared: 0 })).toThrow(
      /^what fits on a GPU of compute capability 6\.1 is not known: name one of 7\.5, .*, 12\.1 with --gpu$/,
    );
  });

  const include = toolkits()
    .map((root) => join(root, 'include'))
    .find((path) => existsSync(join(path, 'cuda_occupancy.h')));
  const canCompile = include !== undefined && spawnSync('g++', ['--version']).status === 0;
  it.skipIf(!canCompile)("are as many as CUDA's own calculator says (needs the toolkit and g++)", () => {
    const program = place.path('occupancy');
    writeFileSync(`${program}.cpp`, calculator);
    const { stderr } = spawnSync('g++', [`-I${include}`, '-o', program, `${program}.cpp`], { encoding: 'utf8' });
    expect(stderr).toBe('');
    const lines = spawnSync(program, { encoding: 'utf8', maxBuffer: 64 << 20 })
      .stdout.trim()
      .split('\n');
    expect(lines.length).toBeGreaterThan(50_000);
    const wrong = lines.filter((line) => {
      const [major, minor, threads, registers, shared, blocks] = line.split(' ').map(Number) as number[];
      const own = occupancyOf(`${major}.${minor}`, { threads: threads!, registers: registers!, shared: shared! });
      return own.blocks !== blocks;
    });
    expect(wrong).toEqual([]);
  });
});

/** Prints capability, threads, registers, shared bytes and blocks. Properties of devices are those that the driver reports. */
const calculator = `
#include <climits>
#include <cstddef>
#include <cstdio>
#include <cuda_occupancy.h>
int main() {
  const int devices[][5] = {{7, 5, 1024, 64, 0},  {8, 0, 2048, 164, 1}, {8, 6, 1536, 100, 1},  {8, 7, 1536, 164, 1},
                            {8, 9, 1536, 100, 1}, {9, 0, 2048, 228, 1}, {10, 0, 2048, 228, 1}, {10, 3, 2048, 228, 1},
                            {12, 0, 1536, 100, 1}, {12, 1, 1536, 100, 1}};
  const int threads[] = {1, 32, 33, 96, 128, 192, 256, 384, 576, 640, 1000, 1024};
  const int shared[] = {0, 100, 1024, 5000, 16384, 33000, 64 << 10, 99 << 10, (99 << 10) + 1, 163 << 10, 227 << 10, (227 << 10) + 1};
  for (const auto &d : devices) for (int t : threads) for (int r = 16; r <= 255; r += 5) for (int s : shared) {
    cudaOccDeviceProp device;
    device.computeMajor = d[0], device.computeMinor = d[1], device.maxThreadsPerMultiprocessor = d[2];
    device.maxThreadsPerBlock = 1024, device.warpSize = 32, device.numSms = 1;
    device.regsPerBlock = device.regsPerMultiprocessor = 65536;
    device.sharedMemPerBlock = 48 << 10, device.sharedMemPerMultiprocessor = d[3] << 10;
    device.reservedSharedMemPerBlock = d[4] << 10, device.sharedMemPerBlockOptin = (d[3] - d[4]) << 10;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = 1024, kernel.numRegs = r, kernel.sharedSizeBytes = 0, kernel.numBlockBarriers = 1;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN, kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
    cudaOccDeviceState state;
    cudaOccResult result;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &kernel, &state, t, s)) return 1;
    printf("%d %d %d %d %d %d\\n", d[0], d[1], t, r, s, result.activeBlocksPerMultiprocessor);
  }
}
`;

it('the calls of a step of d12 without a GPU: are of the ops of a real step, at the sizes of d12', async () => {
  using device = Device.open({ kind: 'cpu', threads: 2 });
  const real = (await stepCalls(device)).calls;
  const { calls } = await callsWithoutGpu('bf16');
  expect(new Set(calls.keys())).toEqual(new Set(real.keys()));
  const sizes = (op: string) => [...new Set(calls.get(variantNamed(op))!.map(sizesOf))];
  expect(sizes('norm_forward.layernorm')).toEqual(['N 8192, C 768']);
  expect(calls.get(variantNamed('norm_forward.layernorm'))).toHaveLength(25);
  expect(sizes('matmul_forward')).toContain('N 8192, C 3072, O 768');
  expect(sizes('attention_forward')).toEqual(['B 8, T 1024, C 768, NH 12']);
});

describe("the compiler's own words", () => {
  it('are read: of each kernel, not of the functions that it calls', () => {
    expect(demangled('_Z5scaleIfLi256EEvPT_')).toBe('void scale<float, 256>(float*)');
    expect(demangled('big')).toBe('big');
    const kernels = parseResources(`ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5scaleIfLi256EEvPT_' for 'sm_90a'
ptxas info    : Function properties for _Z4slowf
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Function properties for _Z5scaleIfLi256EEvPT_
ptxas         .     288 bytes stack frame, 556 bytes spill stores, 604 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 304 bytes cumulative stack size
ptxas info    : Compile time = 27.856 ms
ptxas info    : Compiling entry function 'big' for 'sm_75'
ptxas info    : Function properties for big
    128 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 42 registers, used 1 barriers, 4096 bytes smem, 360 bytes cmem[0]
`);
    expect([...kernels]).toEqual([
      ['scale<float, 256>', { registers: 32, shared: 0, local: 304, spillStores: 556, spillLoads: 604 }],
      ['big', { registers: 42, shared: 4096, local: 128, spillStores: 0, spillLoads: 0 }],
    ]);
  });

  it('PTX: kernels, and where they come from', () => {
    const text = [
      '.visible .entry _Z1kPf(\n\t.param .u64 _Z1kPf_param_0\n)\n{',
      '\t.loc\t1 3 0\n\n\t.loc\t1 6 3\n\t.loc\t2 1 31, function_name $L__info_string0, inlined_at 1 6 3\n\tret;\n\n}',
      '\t.file\t1 "/a/k.cu"\n\t.file\t2 "/a/f.h"',
    ];
    expect([...parsePtx(text.join('\n'))]).toEqual([
      [
        'k',
        [
          ...['.visible .entry _Z1kPf(', '    .param .u64 _Z1kPf_param_0', ')', '{'],
          ...[
            { file: '/a/k.cu', line: 3 },
            { file: '/a/k.cu', line: 6 },
          ],
          ...[{ file: '/a/f.h', line: 1, inlinedAt: '/a/k.cu:6' }, '    ret;', '}'],
        ],
      ],
    ]);
  });

  it('SASS: kernels, and where they come from', () => {
    const text = `//--------------------- .text._Z1kPf     --------------------------
\t.section\t.text._Z1kPf,"ax",@progbits
_Z1kPf:
.text._Z1kPf:
\t//## File "/a/f.h", line 1 inlined at "/a/k.cu", line 6
\t//## File "/a/k.cu", line 6
        /*0000*/              @!P0 MOV R9, 0x40000000 ;
.L_x_1:
        /*0010*/                   BRA \`(.L_x_1);
        /*0020*/                   NOP;
//--------------------- SYMBOLS --------------------------
`;
    expect([...parseSass(text)]).toEqual([
      [
        'k',
        [
          { file: '/a/f.h', line: 1, inlinedAt: '/a/k.cu:6' },
          ...['    /*0000*/ @!P0 MOV R9, 0x40000000 ;', '.L_x_1:', '    /*0010*/ BRA `(.L_x_1);'],
        ],
      ],
    ]);
  });

  it("SASS of a function of CUDA's headers comes from the line that calls it", () => {
    writeFileSync(place.path('cuda_runtime.h'), '');
    const header = place.path('cuda_bf16.hpp');
    const text = `.text._Z1kPf:
\t//## File "${header}", line 585 inlined at "${header}", line 597
\t//## File "${header}", line 597 inlined at "/a/f.h", line 1
\t//## File "/a/f.h", line 1 inlined at "/a/k.cu", line 6
\t//## File "/a/k.cu", line 6
        /*0000*/                   IMAD.U32 R9, R8, 0x10000, RZ ;
`;
    expect([...parseSass(text)]).toEqual([
      ['k', [{ file: '/a/f.h', line: 1, inlinedAt: '/a/k.cu:6' }, '    /*0000*/ IMAD.U32 R9, R8, 0x10000, RZ ;']],
    ]);
  });
});

it("a tool is found in Python's packages, too", () => {
  const tool = place.script('nvidia/cu13/bin/nvtool', '');
  expect(findTool('nvtool')).toBeUndefined();
  vi.stubEnv('PYTHONPATH', place.folder);
  expect(findTool('nvtool')).toBe(tool);
});

const hasCompiler = orElse(undefined, findCompiler) !== undefined;

const twoKernels = `__device__ float twice(float x) { return x * 2 + 1; }
__global__ void add(float *out, const float *in) {
  __shared__ float tile[256];
  tile[threadIdx.x] = twice(in[threadIdx.x]);
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
template <int K> __global__ void __launch_bounds__(1024, 2) mix(float *x, int n) {
  float v[K];
  for (int i = 0; i < K; i++) v[i] = x[i * 1024 + threadIdx.x];
  for (int k = 0; k < n; k++)
    for (int i = 0; i < K; i++) v[i] = v[i] * v[(i * 7 + 3) % K] + k;
  for (int i = 0; i < K; i++) x[i * 1024 + threadIdx.x] = v[i];
}
`;

describe.skipIf(!hasCompiler)('kernel show (needs nvcc or NVRTC)', () => {
  const shared = workplace();
  beforeAll(() => {
    newKernels(shared.path('norm'), { ops: ['norm_forward.layernorm'] });
    newKernels(shared.path('both'), { ops: ['gelu_forward', 'gelu_backward'] });
    writeFileSync(shared.path('two.cu'), twoKernels);
  });
  const show = (...args: readonly string[]) => shared.here(['kernel', 'show', ...args]);

  it('a folder: a table for each dtype, at the sizes of d12', async () => {
    const stdout = quiet(await show('norm', '--gpu', '9.0'));
    expect(stdout).toMatch(
      /^for compute capability 9\.0, launches of a training step of d12 with a batch of 8 x 1024\n\n/,
    );
    for (const dtype of ['fp32', 'bf16']) {
      const row = String.raw`layernorm_forward +\d+ +0 +0 +0 +0 +0 +64 +128 .* N 8192, C 768$`;
      const head = String.raw`^norm_forward\.layernorm ${dtype}\n  kernel +registers .*\n  `;
      expect(stdout).toMatch(new RegExp(head + row, 'm'));
    }
    // One thread per row is 64 blocks.
    expect(stdout).toMatch(/^layernorm_forward has 64 blocks: 64 of the 132 SMs of an H100 have work$/m);
    const other = (await show('norm', '--gpu', '8.9')).stdout;
    expect(other).toMatch(/^norm_forward\.layernorm fp32$/m);
    expect(other).not.toContain('have work');
  });

  it('a file: templates, spills, shared memory, and what they limit', async () => {
    const args = ['two.cu', '--gpu', '8.0', '--instantiate', 'mix<64>', '--block', '1024'];
    const stdout = quiet(await show(...args, '--shared', String(60 << 10)));
    expect(stdout).toMatch(/^for compute capability 8\.0\n\ntwo\.cu fp32\n/);
    expect(stdout).toMatch(/^ {2}mix<64> +32 +0 +61440 +[1-9]\d* +[1-9]\d* +[1-9]\d* +- +1024 +2 +64 of 64 +full$/m);
    expect(stdout).toMatch(/^ {2}add +\d+ +1024 +61440 +0 +0 +0 +- +1024 +2 +64 of 64 +full$/m);
    expect(stdout).toMatch(/^spill: /m);
    const large = (await show(...args, '--shared', String(100 << 10), '--kernel', 'mix<64>')).stdout;
    expect(large).toMatch(/^ {2}mix<64> .* 1 +32 of 64 +shared memory$/m);
    expect(large).toMatch(/^shared memory: with less /m);
    expect(large).not.toMatch(/^ {2}add /m);
    expect((await show(...args, '--shared', String(164 << 10))).stdout).toMatch(/^0 blocks: the launch fails/m);
  });

  it('one kernel: of the cards that launch it', async () => {
    const stdout = quiet(await show('both', '--gpu', '9.0', '--dtype', 'fp32', '--kernel', 'gelu_backward'));
    expect(stdout.match(/^\S.* fp32$/gm)).toEqual(['gelu_backward fp32']);
    expect(stdout.match(/^ {2}gelu\w+/gm)).toEqual(['  gelu_backward']);
  });

  it('a card whose kernel is missing is refused', async () => {
    newKernels(shared.path('other'), { source: () => '__global__ void renamed(float *x) {}' });
    expect((await show('other', '--gpu', '9.0', '--dtype', 'fp32')).stderr).toBe(
      'there is no kernel gelu_forward in other: it has renamed\n',
    );
  });

  it('PTX has the lines of the source', async () => {
    const stdout = quiet(await show('two.cu', '--gpu', '9.0', '--ptx', '--kernel', 'add'));
    expect(stdout).toMatch(/^\/\/ add \(two\.cu fp32\), compute capability 9\.0\n\.visible \.entry _Z3addPfPKf\(/);
    expect(stdout).toContain('\n// two.cu:5  __syncthreads();\n    bar.sync  0;\n');
    expect(stdout).toContain(
      '// two.cu:1 (inlined at two.cu:4)  __device__ float twice(float x) { return x * 2 + 1; }',
    );
    expect(stdout).not.toContain('.loc');
  });

  it('a listing is of the first dtype that the card takes', async () => {
    const { stdout } = await show('norm', '--gpu', '9.0', '--ptx');
    expect(stdout.match(/^\/\/ layernorm_forward \(.*$/gm)).toEqual([
      '// layernorm_forward (norm_forward.layernorm fp32), compute capability 9.0',
    ]);
    expect(stdout).toContain('layernorm.cu:');
  });

  it.skipIf(findTool('nvdisasm') === undefined)('SASS has the lines of the source (needs nvdisasm)', async () => {
    const stdout = quiet(await show('two.cu', '--gpu', '9.0', '--sass'));
    expect(stdout).toMatch(/^\/\/ two\.cu:5 {2}__syncthreads\(\);\n {4}\/\*\w+\*\/ BAR\.SYNC/m);
    expect(stdout).toContain('// two.cu:1 (inlined at two.cu:4)');
  });

  it.each([
    [['two.cu', '--gpu', '9.0', '--kernel', 'sub'], /^there is no kernel sub in two\.cu: it has add\n$/],
    [['norm', '--gpu', '9.0', '--dtype', 'tf32'], /^no kernel of norm takes tf32: add the dtype to the card/],
    [['norm', '--gpu', '9.0', '--block', '64'], /^--block, .* are for a \.cu file; the card of norm says them\n$/],
    [['two.cu', '--gpu', '8.8'], /^what fits on a GPU of compute capability 8\.8 is not known: /],
    [['none.cu'], /^the source none\.cu cannot be read: /],
    [['none'], /^there is no kernel card in none: /],
    [['two.cu', '--ptx', '--sass'], /cannot be used with/],
  ])('%j is refused', async (args, message) => {
    const { code, stdout, stderr } = await show(...args);
    expect(stderr).toMatch(message);
    expect(stdout).toBe('');
    expect(code).toBeGreaterThan(0);
  });

  it('without a GPU it asks for one; without nvdisasm it says which package has it', async () => {
    const env = { GPT2_LIBRARY: place.path('none.so') };
    expect(shared.run(['kernel', 'show', 'two.cu'], env).stderr).toMatch(
      /^cannot tell this machine's GPU: .*; or give its compute capability, as --gpu 9\.0\n$/,
    );
    if (findTool('nvdisasm') !== undefined) return;
    expect((await show('two.cu', '--gpu', '9.0', '--sass')).stderr).toMatch(
      /^SASS needs nvdisasm, which is missing: .*nvidia-cuda-nvdisasm/,
    );
  });
});
