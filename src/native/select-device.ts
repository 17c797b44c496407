// Selects the device that --device names. The name auto means the GPU if the CUDA library exists and can open it, else the CPU.
import { existsSync } from 'node:fs';
import { attempt, Gpt2Error, NativeError, UsageError } from '../base/errors.ts';
import { Device, type Dtype } from './device.ts';
import { type LibraryKind, libraryPath } from './find-library.ts';

export interface DeviceChoice {
  readonly kind: LibraryKind;
  readonly index: number;
}

/**
 * The device that a name stands for, as the options `kind` and `index` of `Device.open`.
 * @param choice "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N"
 * @param index index of the GPU for "auto" and "cuda"
 * @throws UsageError for any other name
 * @example using device = Device.open({ ...selectDevice('auto'), threads: 2 });
 */
export function selectDevice(choice: string, index = 0): DeviceChoice {
  if (choice === 'cpu' || (choice === 'auto' && !hasGpu(index))) return { kind: 'cpu', index: 0 };
  if (choice === 'auto') return { kind: 'cuda', index };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(choice);
  if (!cuda) throw UsageError.takes('--device', 'auto, cpu, cuda or cuda:N', choice);
  return { kind: 'cuda', index: Number(cuda[1] ?? index) };
}

/** An index that no GPU has: the library counts the GPUs and opens none. (Device.open rejects indices below 0.) */
const noGpu = 2 ** 31 - 1;

/** The library for the device name `choice`. Opens no CUDA context, which would last as long as this process. */
export const selectKind = (choice: string): LibraryKind => selectDevice(choice, noGpu).kind;

/** Whether there is a GPU. Also true if there are GPUs but none with this index, so that opening the device reports the index. */
function hasGpu(index: number): boolean {
  if (!existsSync(libraryPath('cuda'))) return false;
  try {
    // The environment variable GPT2_LIBRARY may name the CPU library for both kinds.
    using device = Device.open({ kind: 'cuda', index });
    return device.description.library === 'cuda';
  } catch (error) {
    if (error instanceof NativeError && error.status === 'GPT2_INVALID_ARGUMENT') return true;
    if (error instanceof Gpt2Error) return false;
    throw error;
  }
}

/**
 * The default dtype of a run: bf16 on a GPU, and on a CPU with AMX, where a step takes at most two thirds of fp32's time
 * (benchmarks/cpu.md); else fp32. If the library cannot be opened, this returns fp32, and opening the device reports the error.
 */
export function defaultDtype(kind: LibraryKind): Dtype {
  if (kind === 'cuda') return 'bf16';
  const codePath = attempt(() => {
    using device = Device.open({ kind });
    return device.description.codePath;
  });
  return codePath === 'amx' ? 'bf16' : 'fp32';
}

/** The dtype to evaluate or sample a model in: the default dtype, but on a CPU fp32 unless the model was trained in bf16. */
export const inferenceDtype = (kind: LibraryKind, trained: unknown): Dtype =>
  kind === 'cuda' || trained === 'bf16' ? defaultDtype(kind) : 'fp32';
