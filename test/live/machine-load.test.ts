// The machine's readings: nvidia-smi in place of which a script stands here, and what its lines mean.
import { existsSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { type MachineReading, parseGpuLine, toolsName, watchMachine } from '../../src/report/machine-load.ts';
import { Workplace } from '../support/cli.ts';
import { until } from '../support/until.ts';

it('a line of the tool; a GPU need not know everything', () => {
  const memory = { memoryUsed: 24680 * 2 ** 20, memoryTotal: 81559 * 2 ** 20 };
  const found = parseGpuLine('24680, 81559, 61, 100, 696.42');
  expect(found).toEqual({ ...memory, temperature: 61, load: 1, power: 696.42 });
  expect(parseGpuLine('[N/A], 16384, 40, 0, [Not Supported]')).toEqual({
    memoryTotal: 2 ** 34,
    temperature: 40,
    load: 0,
  });
  expect(parseGpuLine('')).toEqual({});
});

it.each([
  [0, undefined, '0'],
  [1, '', '1'],
  [0, '3', '3'],
  [1, '3, 5', '5'],
  [0, 'GPU-8932f937', 'GPU-8932f937'],
])('CUDA device %i of %j is GPU %s to the tool', (gpu, visible, name) => {
  expect(toolsName(gpu, visible)).toBe(name);
});

it('without the tool there is the memory of the process', async () => {
  vi.stubEnv('PATH', '/nowhere');
  const told: MachineReading[] = [];
  const stop = watchMachine(0, (reading) => told.push(reading));
  await until(() => expect(told).not.toEqual([]));
  stop();
  for (const reading of told) expect(reading).toEqual({ processMemory: expect.any(Number) });
  expect(told[0]!.processMemory).toBeGreaterThan(10 << 20);
});

it('reads the tool for as long as it is watched', async () => {
  using place = new Workplace();
  const ended = place.path('ended');
  const commands = `trap 'touch ${ended}; exit' TERM
[ "$1 $2" = "-i 0" ] || exit 1
echo '100, 1000, 50, 90, 300.00'
while :; do sleep 0.1; done`;
  place.script('nvidia-smi', commands);
  vi.stubEnv('PATH', `${place.folder}:${process.env.PATH}`);
  vi.stubEnv('CUDA_VISIBLE_DEVICES', undefined);
  const told: MachineReading[] = [];
  const stop = watchMachine(0, (reading) => told.push(reading));
  await until(() => expect(told.at(-1)?.gpu).toMatchObject({ temperature: 50, load: 0.9 }));
  stop();
  await until(() => expect(existsSync(ended)).toBe(true));
});
