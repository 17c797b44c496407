// Adds two typed arrays: one thread per sum.
//   node --import tsx examples/vector-add.ts
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

const n = 1_000_000;
using device = Device.open(selectDevice('auto'));
const { add } = await compileKernels<'add'>(device, {
  source: `
    __global__ void add(float *out, const float *a, const float *b, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = a[i] + b[i];
    }`,
});
const a = Float32Array.from({ length: n }, () => Math.random());
const b = Float32Array.from({ length: n }, () => Math.random());
const out = tensorOf(device, new Float32Array(n));
add.launch({ grid: Math.ceil(n / 256), block: 256 }, out, tensorOf(device, a), tensorOf(device, b), n);

const errors = Array.from(out.read(), (sum, i) => Math.abs(sum - Math.fround(a[i]! + b[i]!)));
const largest = errors.reduce((most, each) => Math.max(most, each));
console.log(`${n.toLocaleString('en-US')} sums, the largest error ${largest}`);
