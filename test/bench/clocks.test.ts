// The GPU whose clocks and energy the bench prints; its measurements are left out here.
import { execFileSync } from 'node:child_process';
import { describe, expect, it, vi } from 'vitest';
import type { BenchOptions } from '../../src/lab/bench/bench.ts';
import { benchTraining } from '../../src/lab/bench/bench-training.ts';
import { openEnergyCounter } from '../../src/native/gpu-energy.ts';
import { readClocks } from '../../src/report/machine-load.ts';
import { Workplace } from '../support/cli.ts';
import { pathWithTool } from '../support/driver-tool.ts';

vi.mock('../../src/lab/bench/bench.ts', () => ({ bench: ({ onMeasuring }: BenchOptions) => onMeasuring?.(5) }));

it.each([
  ['cpu', undefined, undefined],
  ['cuda', undefined, '0'],
  ['cuda:1', undefined, '1'],
  ['cuda:1', '3,5', '5'],
])('%s where %s are visible is GPU %s', async (device, visible, gpu) => {
  using place = new Workplace();
  vi.stubEnv('CUDA_VISIBLE_DEVICES', visible);
  const onMeasuring = vi.fn();
  await benchTraining({ device, data: place.data(), sequence: 8 }, { steps: 1, warmup: 0, ops: false, onMeasuring });
  expect(onMeasuring).toHaveBeenCalledExactlyOnceWith(expect.any(Number), gpu);
});

it('asks the tool for that one', () => {
  using place = new Workplace();
  vi.stubEnv('PATH', pathWithTool(place));
  expect(readClocks('5')).toBe('GPU 5');
});

describe('the energy counter', () => {
  it('is that of the GPU with this number or UUID, in joules', () => {
    using place = new Workplace();
    const library = place.path('libnvidia-ml.so');
    place.file('nvml.c', nvml);
    execFileSync('cc', ['-shared', '-fPIC', '-o', library, place.path('nvml.c')]);
    const second = openEnergyCounter('1', library)!;
    expect([second(), second()]).toEqual([5_000_000_001.5, 5_000_000_002]);
    expect(openEnergyCounter('GPU-7', library)!()).toBe(7.5);
    expect(openEnergyCounter('3', library), 'a GPU that does not exist').toBeUndefined();
    expect(openEnergyCounter('MIG-1', library), 'a GPU that counts nothing').toBeUndefined();
  });

  it('does not exist without the library', () => {
    expect(openEnergyCounter('0', '/nowhere/libnvidia-ml.so.1')).toBeUndefined();
  });
});

/** NVML with GPUs 0 and 1, GPU-7 and MIG-1; each reading adds half a joule. */
const nvml = `
#include <string.h>
static struct { unsigned long long millijoules; } gpus[2] = {{0}, {5000000001000ull}}, seventh = {7000}, mig;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
  if (index > 1) return 2;
  *device = &gpus[index];
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
  *device = strcmp(uuid, "GPU-7") ? (void *)&mig : (void *)&seventh;
  return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *energy) {
  if (device == &mig) return 3;
  *energy = *(unsigned long long *)device;
  *(unsigned long long *)device += 500;
  return 0;
}
`;
