// What --device means: the GPU where its library is there and opens, else the CPU.
import { existsSync } from 'node:fs';
import { Gpt2Error, NativeError, UsageError } from '../errors.ts';
import { Device } from './device.ts';
import { type LibraryKind, libraryPath } from './library.ts';

export interface DeviceChoice {
  readonly kind: LibraryKind;
  /** Which GPU. */
  readonly index: number;
}

/**
 * @param choice "auto", "cpu", "cuda" or "cuda:N"
 * @param index the GPU to take where `choice` names none
 * @throws UsageError for anything else
 */
export function selectDevice(choice: string, index = 0): DeviceChoice {
  if (choice === 'cpu' || (choice === 'auto' && !hasGpu(index))) return { kind: 'cpu', index: 0 };
  if (choice === 'auto') return { kind: 'cuda', index };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(choice);
  if (!cuda) throw new UsageError(`--device takes auto, cpu, cuda or cuda:N, not ${JSON.stringify(choice)}`);
  return { kind: 'cuda', index: Number(cuda[1] ?? index) };
}

/** No GPU's number: the library looks for GPUs and opens none. */
const nobodys = -1;

/** What `choice` comes to in processes that this one starts: had it a context on a GPU, that would stay as long as it does. */
export const selectKind = (choice: string): LibraryKind => selectDevice(choice, nobodys).kind;

/** Opens none but the one that is asked for. If that is not there but others are, it says so itself when it is taken. */
function hasGpu(index: number): boolean {
  if (!existsSync(libraryPath('cuda'))) return false;
  try {
    // GPT2_LIBRARY may name either library; what it opens as tells which.
    using device = Device.open({ kind: 'cuda', index });
    return device.description.library === 'cuda';
  } catch (error) {
    if (error instanceof NativeError && error.status === 'GPT2_INVALID_ARGUMENT') return true;
    if (error instanceof Gpt2Error) return false;
    throw error;
  }
}
