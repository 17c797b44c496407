// Which GPUs --device opens, with a library that is mocked: a rank opens one, the process that starts ranks none.
import { fileURLToPath } from 'node:url';
import { beforeEach, expect, it, vi } from 'vitest';
import { GPT2_STATUS } from '../../src/native/bindings.generated.ts';
import { defaultDtype, inferenceDtype, selectDevice, selectKind } from '../../src/native/select-device.ts';
import { wantedRanks } from '../../src/train/plan/resolve-options.ts';

const made = vi.hoisted(() => ({ gpus: 0, opened: [] as number[], codePath: 'sm90' }));

vi.mock('../../src/native/library.ts', () => ({
  loadLibrary: () => ({
    contextCreate({ context, device }: { context: BigUint64Array; device: number }) {
      context[0] = 1n;
      if (made.gpus === 0) return GPT2_STATUS.GPT2_UNSUPPORTED;
      if (device < 0 || device >= made.gpus) return GPT2_STATUS.GPT2_INVALID_ARGUMENT;
      made.opened.push(device);
      return GPT2_STATUS.GPT2_OK;
    },
    contextDescription: () => JSON.stringify({ library: 'cuda', codePath: made.codePath }),
    contextDestroy: () => {},
    lastError: () => 'none',
  }),
}));

function machineWith(gpus: number) {
  // A file that is there.
  vi.stubEnv('GPT2_LIBRARY', fileURLToPath(import.meta.url));
  made.gpus = gpus;
}

beforeEach(() => {
  made.opened.length = 0;
});

it('a process that starts ranks opens no GPU, and knows that there are some', () => {
  machineWith(2);
  expect(wantedRanks({ ranks: 2, batch: 4, totalBatch: 16384 })).toBe(2);
  expect(selectKind('auto')).toBe('cuda');
  expect(made.opened).toEqual([]);
});

it('nor where there is none', () => {
  machineWith(0);
  expect(() => wantedRanks({ ranks: 2 })).toThrow('--gpus 2 needs GPUs, and none can be used here');
  expect(selectKind('auto')).toBe('cpu');
});

it.each([
  ['a rank opens its own alone', 1, [1]],
  ['a GPU that is not there is no reason to take the CPU', 2, []],
])('%s', (_, index, opened) => {
  machineWith(2);
  expect(selectDevice('auto', index)).toEqual({ kind: 'cuda', index });
  expect(made.opened).toEqual(opened);
});

it.each([
  ['amx', 'bf16'],
  ['avx512', 'fp32'],
])('on code path %s a CPU trains in %s, and evaluates a run of fp32 in fp32', (codePath, dtype) => {
  machineWith(1);
  made.codePath = codePath;
  expect(defaultDtype('cpu')).toBe(dtype);
  expect([undefined, 'fp32', 'fp8', 'bf16'].map((trained) => inferenceDtype('cpu', trained))).toEqual([
    'fp32',
    'fp32',
    'fp32',
    dtype,
  ]);
  expect(inferenceDtype('cuda', 'fp32')).toBe('bf16');
});

it('where the library does not open, the default is fp32', () => {
  machineWith(0);
  expect(defaultDtype('cpu')).toBe('fp32');
});
