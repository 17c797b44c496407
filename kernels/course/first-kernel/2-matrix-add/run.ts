// Adds two matrices in blocks of 32 x 8 threads, and checks every sum.
//   node --import tsx kernels/course/first-kernel/2-matrix-add/run.ts
import { fileURLToPath } from 'node:url';
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

const [rows, columns] = [300, 500];
using device = Device.open(selectDevice('auto'));
const file = fileURLToPath(new URL('matrix-add.cu', import.meta.url));
const { matrix_add } = await compileKernels<'matrix_add'>(device, { file });

const random = () => Float32Array.from({ length: rows * columns }, Math.random);
const [x, y] = [random(), random()];
const [a, b] = [tensorOf(device, x, [rows, columns]), tensorOf(device, y, [rows, columns])];
const out = tensorOf(device, new Float32Array(rows * columns), [rows, columns]);
// A grid is x first: columns, then rows.
const grid = [Math.ceil(columns / 32), Math.ceil(rows / 8)] as const;
matrix_add.launch({ grid, block: [32, 8] }, out, a, b, rows, columns);
const wrong = out.read().filter((sum, i) => sum !== Math.fround(x[i]! + y[i]!)).length;
console.log(`matrix_add: ${rows} x ${columns} sums, ${wrong} wrong`);
