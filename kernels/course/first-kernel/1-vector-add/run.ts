// Adds two vectors on a GPU, or on a CPU that emulates one, and checks every sum.
//   node --import tsx kernels/course/first-kernel/1-vector-add/run.ts
import { fileURLToPath } from 'node:url';
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

const n = 100_000;
using device = Device.open(selectDevice('auto'));
const file = fileURLToPath(new URL('vector-add.cu', import.meta.url));
const { vector_add } = await compileKernels<'vector_add'>(device, { file });

const random = () => Float32Array.from({ length: n }, Math.random);
const [x, y] = [random(), random()];
const [a, b] = [tensorOf(device, x), tensorOf(device, y)];
const out = tensorOf(device, new Float32Array(n));
const block = 256;
vector_add.launch({ grid: Math.ceil(n / block), block }, out, a, b, n); // returns at once
const sums = out.read(); // waits for the kernel
const wrong = sums.filter((sum, i) => sum !== Math.fround(x[i]! + y[i]!)).length;
console.log(`vector_add: ${n} sums, ${wrong} wrong`);
