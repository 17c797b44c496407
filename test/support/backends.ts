// Runs a suite once per native library and dtype. What cannot run here is a visible skip with its reason.
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, describe, it, vi } from 'vitest';
import { Device, type Dtype } from '../../src/native/device.ts';
import { type LibraryKind, libraryPath } from '../../src/native/find-library.ts';
import { refusalOf } from './refusal.ts';

/**
 * A suite for each library and each of `dtypes` it has (the CPU library has no tf32); `device()` is the open device.
 * @param cpuDtypes for suites that test in bf16 on a CPU only what they test in fp32. Default `dtypes`
 */
export function describeBackends<D extends Dtype = 'fp32'>(
  name: string,
  suite: (device: () => Device, kind: LibraryKind, dtype: D) => void,
  { dtypes = ['fp32' as D], cpuDtypes = dtypes }: { dtypes?: readonly D[]; cpuDtypes?: readonly D[] } = {},
): void {
  for (const kind of ['cpu', 'cuda'] as const) {
    for (const dtype of kind === 'cpu' ? cpuDtypes : dtypes) {
      if (kind === 'cpu' && dtype === 'tf32') continue;
      const reason = missing(kind, dtype);
      const title = kind === 'cpu' && dtype === 'fp32' ? `${name} on cpu` : `${name} on ${kind}, ${dtype}`;
      if (reason !== undefined) {
        describe(title, () => it.skip(reason, () => {}));
        continue;
      }
      describe(title, () => {
        let device: Device | undefined;
        beforeAll(() => {
          device = Device.open({ kind, dtype });
        });
        afterAll(() => device?.close());
        suite(() => device!, kind, dtype);
      });
    }
  }
}

/** A suite for the CUDA library alone, on a machine with a GPU. */
export function describeCuda(name: string, suite: () => void): void {
  const reason = missing('cuda');
  if (reason === undefined) describe(name, suite);
  else describe(name, () => it.skip(reason, () => {}));
}

/** A device on a code path of the CPU library. */
export function openPath(path: string, dtype?: Dtype): Device {
  const before = process.env.GPT2_KERNELS;
  vi.stubEnv('GPT2_KERNELS', path);
  try {
    return Device.open({ kind: 'cpu', dtype });
  } finally {
    vi.stubEnv('GPT2_KERNELS', before);
  }
}

/** The code paths that this CPU has; the error about an unknown path lists them. */
export function codePaths(): string[] {
  const message = refusalOf(() => openPath('abacus').close());
  return /one of (.*) on this CPU, got abacus/.exec(message!)![1]!.split(', ');
}

/** Whether the GPU has a dtype; those before compute capability 8.9 have no fp8. */
export const hasCudaDtype = (dtype: Dtype): boolean => missing('cuda', dtype) === undefined;

/**
 * Why a library is not tested here, or undefined if it is. With GPT2_REQUIRE_CUDA=1 only CUDA is, and a missing GPU is an error:
 * half of the time of scripts/test-gpu would go to tests of the CPU library, which scripts/test runs.
 */
function missing(kind: LibraryKind, dtype: Dtype = 'fp32'): string | undefined {
  const path = libraryPath(kind);
  const file = path.split('/').at(-1)!;
  const isRequired = process.env.GPT2_REQUIRE_CUDA === '1';
  if (isRequired && kind === 'cpu') return 'scripts/test tests the CPU library';
  if (!existsSync(path) && !isRequired) return `there is no ${file}`;
  if (!file.includes(kind)) return `GPT2_LIBRARY is ${file}`;
  if (kind === 'cpu') return undefined;
  try {
    using device = Device.open({ kind });
    const { dtypes, device: gpu } = device.description;
    return dtypes.includes(dtype) ? undefined : `${gpu} has no ${dtype}`;
  } catch (error) {
    if (isRequired || !(error instanceof Error)) throw error;
    return error.message;
  }
}
