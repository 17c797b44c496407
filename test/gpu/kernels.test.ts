// Kernels of a user on a GPU: compiled, launched in the order of the ops, recorded in graphs, with what the device allows.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { allocateTensor, tensorOf } from '../../src/native/tensor.ts';
import { compiledFile, compileKernels } from '../../src/ops/kernels/compile.ts';
import { loadKernels } from '../../src/ops/kernels/kernels.ts';
import { geluForward } from '../../src/ops/ops.generated.ts';
import { describeCuda } from '../support/backends.ts';

const source = `
#include <cuda_bf16.h>
#include <cstdint>
extern "C" __global__ void add(float *out, const float *a, const float *b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}
template <class T, int K> __global__ void scale(T *x, float by) {
  x[threadIdx.x] = static_cast<T>(static_cast<float>(x[threadIdx.x]) * by * K);
}
__global__ void every_type(double *out, bool a, signed char b, unsigned short c, unsigned d, long long e, float f, double g) {
  const double values[] = {a ? 1.0 : 0.0, double(b), double(c), double(d), double(e), double(f), g};
  for (int i = 0; i < 7; i++) out[i] = values[i];
}
__global__ void reversed(int32_t *x) {
  extern __shared__ int32_t shared[];
  for (int i = threadIdx.x; i < 20000; i += blockDim.x) shared[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 20000; i += blockDim.x) x[i] = shared[19999 - i];
}
__global__ void nothing() {}
__global__ void __launch_bounds__(64) narrow(int *x) { x[threadIdx.x] = blockDim.x; }
`;
const instantiate = ['scale<float, 2>', 'scale<__nv_bfloat16, 3>'];

describeCuda('kernels of a user', () => {
  let device: Device;
  let kernels: Awaited<ReturnType<typeof compileKernels>>;
  beforeAll(async () => {
    device = Device.open({ kind: 'cuda' });
    kernels = await compileKernels(device, { source, instantiate });
  });
  afterAll(() => device.close());

  it('add two vectors', () => {
    const n = 10_000;
    const [a, b] = [0.5, -2].map((by) =>
      tensorOf(
        device,
        Float32Array.from({ length: n }, (_, i) => i * by + 1),
      ),
    );
    const out = allocateTensor(device, 'out', 'fp32', [n]);
    kernels.add!.launch({ grid: Math.ceil(n / 256), block: 256 }, out, a!, b!, n);
    expect(out.read()).toEqual(Float32Array.from({ length: n }, (_, i) => i * -1.5 + 2));
  });

  it('take template arguments, and say what they were made into', () => {
    const x = tensorOf(device, Float32Array.of(1, 2, 3, 4));
    kernels['scale<float,2>']!.launch({ grid: 1, block: 4 }, x, 0.25);
    expect(x.read()).toEqual(Float32Array.of(0.5, 1, 1.5, 2));
    // 1 and 2 as bf16, times 1.5.
    const bits = tensorOf(device, Uint16Array.of(0x3f80, 0x4000));
    kernels['scale<__nv_bfloat16, 3>']!.launch({ grid: 1, block: 2 }, bits, 0.5);
    expect(bits.read()).toEqual(Uint16Array.of(0x3fc0, 0x4040));
    const { parameters, attributes } = kernels.add!;
    expect(parameters.map(({ type }) => type)).toEqual(['float*', 'float const*', 'float const*', 'int']);
    expect(attributes).toMatchObject({ localBytes: 0, sharedBytes: 0, threads: 1024 });
    expect(attributes.registers).toBeGreaterThan(0);
    expect(() => kernels.ad).toThrow(/^there is no kernel ad in .*: it has .*\badd\b/);
  });

  it('get every type of number', () => {
    const out = device.allocate(7 * 8, 'out');
    kernels.every_type!.launch({ grid: 1, block: 1 }, out, true, -100, 60_000, 4e9, -(2n ** 60n), 0.1, 0.1);
    const host = new Float64Array(7);
    device.call('copyToHost', { destination: host, source: out.pointer, bytes: 56 });
    expect([...host]).toEqual([1, -100, 60_000, 4e9, -(2 ** 60), Math.fround(0.1), 0.1]);
  });

  it('have more than 48 KB of shared memory, and none where a block has less', () => {
    const values = Int32Array.from({ length: 20_000 }, (_, i) => i * 7);
    const x = tensorOf(device, values);
    kernels.reversed!.launch({ grid: 1, block: 256, shared: 80_000 }, x);
    expect(x.read()).toEqual(values.toReversed());
    const { sharedLimit } = kernels.reversed!.attributes;
    expect(() => kernels.reversed!.launch({ grid: 1, block: 256, shared: sharedLimit + 1 }, x)).toThrow(
      `a block cannot have ${sharedLimit + 1} bytes of dynamic shared memory; the most is ${sharedLimit}`,
    );
  });

  it('need no parameters; a block has as many threads as they were compiled for', () => {
    kernels.nothing!.launch({ grid: 3, block: 32 });
    const x = tensorOf(device, new Int32Array(64));
    kernels.narrow!.launch({ grid: 1, block: 64 }, x);
    expect(x.read()).toEqual(new Int32Array(64).fill(64));
    expect(() => kernels.narrow!.launch({ grid: 1, block: 65 }, x)).toThrow('this kernel takes at most 64');
  });

  it('run between our ops, in their order, and in a recorded program', async () => {
    const n = 1 << 20;
    const x = tensorOf(
      device,
      Float32Array.from({ length: n }, (_, i) => (i % 100) / 100),
    );
    const [doubled, out, once] = ['doubled', 'out', 'once'].map((name) => allocateTensor(device, name, 'fp32', [n]));
    const shape = { grid: Math.ceil(n / 256), block: 256 };
    const step = (result: typeof x) => {
      kernels.add!.launch(shape, doubled!, x, x, n);
      geluForward(device, { out: result, in: doubled! });
      kernels.add!.launch(shape, result, result, x, n);
    };
    step(once!);
    const program = device.program(() => step(out!));
    for (let run = 0; run < 20; run++) program.run();
    await device.finished();
    expect(Buffer.compare(Buffer.from(out!.read().buffer), Buffer.from(once!.read().buffer))).toBe(0);
    expect((out!.read() as Float32Array)[50]).toBeCloseTo(0.8412 + 0.5, 3);
  });

  it('are loaded from a file that was compiled before, for this GPU only', () => {
    const path = compiledFile({ source, instantiate }, device.description.computeCapability!);
    using loaded = loadKernels<'add'>(device, path);
    const out = tensorOf(device, new Float32Array(3));
    const a = tensorOf(device, Float32Array.of(1, 2, 3));
    loaded.add.launch({ grid: 1, block: 32 }, out, a, a, 3);
    expect(out.read()).toEqual(Float32Array.of(2, 4, 6));
    loaded[Symbol.dispose]();
    expect(() => loaded.add.launch({ grid: 1, block: 32 }, out, a, a, 3)).toThrow(/^the kernels of .* are closed$/);
    const other = compiledFile({ source: '__global__ void f() {}' }, '8.0');
    if (device.description.computeCapability !== '8.0') {
      expect(() => loadKernels(device, other)).toThrow(/has no kernels for this GPU; compile them for it/);
    }
    expect(() => loadKernels(device, 'none.cubin')).toThrow(/cannot load none\.cubin: CUDA_ERROR_FILE_NOT_FOUND/);
  });
});
