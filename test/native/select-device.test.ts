// Which GPUs --device opens: each rank its own alone, and the process that starts ranks none. Of a library that is made up.
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { NativeError } from '../../src/errors.ts';
import { Device } from '../../src/native/device.ts';
import { selectDevice, selectKind } from '../../src/native/select-device.ts';
import { wantedRanks } from '../../src/train/run/settle.ts';

const opened: number[] = [];

function machineWith(gpus: number) {
  // A file that is there.
  vi.stubEnv('GPT2_LIBRARY', fileURLToPath(import.meta.url));
  vi.spyOn(Device, 'open').mockImplementation(({ index = 0 }) => {
    const no = (status: string) => new NativeError('gpt2_context_create', status, 'none');
    if (gpus === 0) throw no('GPT2_UNSUPPORTED');
    if (index < 0 || index >= gpus) throw no('GPT2_INVALID_ARGUMENT');
    opened.push(index);
    return { description: { library: 'cuda' }, [Symbol.dispose]() {} } as Device;
  });
}

beforeEach(() => {
  opened.length = 0;
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

it('a process that starts ranks opens no GPU, and knows that there are some', () => {
  machineWith(2);
  expect(wantedRanks({ ranks: 2, batch: 4, totalBatch: 16384 })).toBe(2);
  expect(selectKind('auto')).toBe('cuda');
  expect(opened).toEqual([]);
});

it('nor where there is none', () => {
  machineWith(0);
  expect(() => wantedRanks({ ranks: 2 })).toThrow('--gpus 2 needs GPUs, and none can be used here');
  expect(selectKind('auto')).toBe('cpu');
});

it('a rank opens its own alone', () => {
  machineWith(2);
  expect(selectDevice('auto', 1)).toEqual({ kind: 'cuda', index: 1 });
  expect(opened).toEqual([1]);
});

it('a GPU that is not there is no reason to take the CPU', () => {
  machineWith(2);
  expect(selectDevice('auto', 2)).toEqual({ kind: 'cuda', index: 2 });
});
