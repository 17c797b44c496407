// The smallest kernel: every thread says which one it is. It runs on a GPU, or on a CPU, which emulates one.
//   node --import tsx examples/hello-kernel.ts
import { compileKernels, Device, selectDevice } from 'gpt2.ts';

using device = Device.open(selectDevice('auto'));
const { hello } = await compileKernels<'hello'>(device, {
  source: `
    __global__ void hello() {
      printf("hello from thread %d of block %d\\n", threadIdx.x, blockIdx.x);
    }`,
});
hello.launch({ grid: 2, block: 4 });
await device.finished();
