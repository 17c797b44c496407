// Of which GPU the bench tells the clocks; what it measures is left out here.
import { afterEach, expect, it, vi } from 'vitest';
import type { BenchOptions } from '../../src/bench/bench.ts';
import { benchTraining } from '../../src/bench/bench-training.ts';
import { readClocks } from '../../src/commands/bench.ts';
import { Workplace } from '../support/cli.ts';
import { pathWithTool } from '../support/driver-tool.ts';

vi.mock('../../src/bench/bench.ts', () => ({ bench: ({ onMeasuring }: BenchOptions) => onMeasuring?.() }));
afterEach(() => vi.unstubAllEnvs());

it.each([
  ['cpu', undefined, undefined],
  ['cuda', undefined, '0'],
  ['cuda:1', undefined, '1'],
  ['cuda:1', '3,5', '5'],
])('%s where %s are visible is GPU %s', async (device, visible, gpu) => {
  using place = new Workplace();
  vi.stubEnv('CUDA_VISIBLE_DEVICES', visible);
  const onMeasuring = vi.fn();
  const data = place.data();
  await benchTraining({ device, data, sequence: 8 }, { steps: 1, warmup: 0, ops: false, onMeasuring });
  expect(onMeasuring).toHaveBeenCalledExactlyOnceWith(gpu);
});

it('asks the tool for that one', () => {
  using place = new Workplace();
  vi.stubEnv('PATH', pathWithTool(place));
  expect(readClocks('5')).toBe('GPU 5');
});
