// Sums a vector with each rung, five times: how far from the sum in double, with how many different results, in what time?
//   node --import tsx kernels/course/reductions/run.ts [--no-checks]
import { fileURLToPath } from 'node:url';
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

using device = Device.open(selectDevice('auto'));
const [n, block] = [device.description.library === 'cuda' ? 16_000_003 : 300_007, 256];
const blocks = Math.ceil(n / block);
/** The blocks of each launch. The first adds the n numbers, each later one the sums of the blocks before it. */
const rungs = {
  '1-atomics': [blocks],
  '2-tree': [blocks, Math.ceil(blocks / block), 1],
  '3-shuffles': [blocks, Math.ceil(blocks / block), 1],
  '4-grid-stride': [1024, 1],
};
const values = Float32Array.from({ length: n }, Math.random);
const [exact, numbers] = [values.reduce((sum, value) => sum + value, 0), tensorOf(device, values)];
const [start, end] = [device.createEvent(), device.createEvent()];
for (const [rung, grids] of Object.entries(rungs)) {
  const file = fileURLToPath(new URL(`${rung}/sum.cu`, import.meta.url));
  const { sum } = await compileKernels<'sum'>(device, { file, checks: !process.argv.includes('--no-checks') });
  const [sums, times]: [number[], number[]] = [[], []];
  for (let run = 0; run < 5; run++) {
    const outs = grids.map((grid) => tensorOf(device, new Float32Array(grid)));
    device.record(start);
    grids.forEach((grid, at) => {
      sum.launch({ grid, block }, outs[at]!, outs[at - 1] ?? numbers, grids[at - 1] ?? n);
    });
    device.record(end);
    await device.reached(end);
    sums.push(outs.at(-1)!.read()[0]!);
    times.push(device.elapsed(start, end));
  }
  const error = Math.max(...sums.map((each) => Math.abs(each / exact - 1)));
  const different = new Set(sums).size;
  console.log(`${rung}: error ${error.toExponential(0)}, ${different} different, ${Math.min(...times).toFixed(4)} ms`);
}
