// Does many small operations by a launch each, by the same launches in a graph, and by one kernel: are the results the same, and how
// long does an operation take the host and the GPU?
//   node --import tsx kernels/course/launches/run.ts
import { fileURLToPath } from 'node:url';
import { compileKernels, Device, selectDevice, tensorOf } from 'gpt2.ts';

using device = Device.open(selectDevice('auto'));
const [n, block, count] = [4096, 256, device.description.library === 'cuda' ? 1000 : 20];
const compiled = <Name extends string>(path: string) =>
  compileKernels<Name>(device, { file: fileURLToPath(new URL(path, import.meta.url)), checks: false });
const [{ step }, { steps }] = await Promise.all([
  compiled<'step'>('1-launches/step.cu'),
  compiled<'steps'>('2-one-kernel/steps.cu'),
]);
const start = Float32Array.from({ length: n }, Math.random);
const x = tensorOf(device, start);
const shape = { grid: Math.ceil(n / block), block };
const launches = () => {
  for (let index = 0; index < count; index++) step.launch(shape, x, 0.5, 1, n);
};
const graph = device.program(launches);
const ways = {
  launches: launches,
  'a graph': () => graph.run(),
  'one kernel': () => steps.launch(shape, x, 0.5, 1, n, count),
};
const [from, to] = [device.createEvent(), device.createEvent()];
let expected: Float32Array | undefined;
for (const [name, run] of Object.entries(ways)) {
  const times: { host: number; device: number }[] = [];
  for (let repeat = 0; repeat < 6; repeat++) {
    x.write(start);
    await device.finished();
    device.record(from);
    const begin = performance.now();
    run();
    const host = performance.now() - begin;
    device.record(to);
    await device.reached(to);
    times.push({ host, device: device.elapsed(from, to) });
  }
  const values = x.read() as Float32Array;
  expected ??= values;
  const same = values.every((value, index) => value === expected![index]);
  // The first run records the graph.
  const least = (of: 'host' | 'device') =>
    ((1000 * Math.min(...times.slice(1).map((time) => time[of]))) / count).toFixed(3);
  console.log(
    `${name}: ${same ? 'the same' : 'other'} numbers, us per operation: host ${least('host')}, device ${least('device')}`,
  );
}
