// Selects the device that --device names; auto is the GPU if the CUDA library is built and opens it, else the CPU.
import { existsSync } from 'node:fs';
import { attempt, Gpt2Error, NativeError, UsageError } from '../base/errors.ts';
import { Device, type Dtype } from './device.ts';
import { type LibraryKind, libraryPath } from './find-library.ts';

export interface DeviceChoice {
  readonly kind: LibraryKind;
  readonly index: number;
}

/**
 * The device that a name stands for, as the `kind` and `index` of `Device.open`.
 * @param choice "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N"
 * @param index of the GPU, if `choice` names none
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

/** No GPU has this index: the library counts the GPUs and opens none. Device.open rejects indices below 0. */
const noGpu = 2 ** 31 - 1;

/** The library for `choice`, for processes that this one starts. No context is opened: it would last as long as this process. */
export const selectKind = (choice: string): LibraryKind => selectDevice(choice, noGpu).kind;

/** Whether there is a GPU; true also if no GPU has this index: opening it then reports the error. */
function hasGpu(index: number): boolean {
  if (!existsSync(libraryPath('cuda'))) return false;
  try {
    // GPT2_LIBRARY may name either library.
    using device = Device.open({ kind: 'cuda', index });
    return device.description.library === 'cuda';
  } catch (error) {
    if (error instanceof NativeError && error.status === 'GPT2_INVALID_ARGUMENT') return true;
    if (error instanceof Gpt2Error) return false;
    throw error;
  }
}

/**
 * The dtype of runs that name none: bf16 on a GPU, and on a CPU with AMX, where a step takes at most two thirds of fp32's time
 * (benchmarks/cpu.md); else fp32, also where the library does not open: opening it then reports the error.
 */
export function defaultDtype(kind: LibraryKind): Dtype {
  if (kind === 'cuda') return 'bf16';
  const codePath = attempt(() => {
    using device = Device.open({ kind });
    return device.description.codePath;
  });
  return codePath === 'amx' ? 'bf16' : 'fp32';
}

/** The dtype in which a model is evaluated and sampled: the default, but fp32 on a CPU unless the model's run was in bf16. */
export const inferenceDtype = (kind: LibraryKind, trained: unknown): Dtype =>
  kind === 'cuda' || trained === 'bf16' ? defaultDtype(kind) : 'fp32';
