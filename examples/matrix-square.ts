// The square of a matrix, one thread per element, in blocks of 16 x 16 threads, timed by the device's clock.
//   node --import tsx examples/matrix-square.ts
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

const n = 256;
using device = Device.open(selectDevice('auto'));
const { square } = await compileKernels<'square'>(device, {
  source: `
    __global__ void square(float *out, const float *a, int n) {
      const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
      if (row >= n || column >= n) return;
      float sum = 0;
      for (int k = 0; k < n; k++) sum += a[row * n + k] * a[k * n + column];
      out[row * n + column] = sum;
    }`,
});
const values = Float32Array.from({ length: n * n }, (_, i) => ((i * 7919) % 1000) / 1000);
const [a, out] = [tensorOf(device, values, [n, n]), tensorOf(device, new Float32Array(n * n), [n, n])];
const [before, after] = [device.createEvent(), device.createEvent()];
device.record(before);
square.launch({ grid: [n / 16, n / 16], block: [16, 16] }, out, a, n);
device.record(after);
await device.reached(after);
const expected = Array.from({ length: n }, (_, k) => values[k]! * values[k * n]!).reduce((sum, each) => sum + each);
console.log(
  `${device.elapsed(before, after).toFixed(2)} ms, largest error ${Math.abs((out.read()[0] ?? 0) - expected)} in [0,0]`,
);
