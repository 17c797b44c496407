// What --device means: the GPU where its library is there and opens, else the CPU.
import { existsSync } from 'node:fs';
import { Gpt2Error, UsageError } from '../errors.ts';
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
  if (choice === 'cpu' || (choice === 'auto' && !hasGpu())) return { kind: 'cpu', index: 0 };
  if (choice === 'auto') return { kind: 'cuda', index };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(choice);
  if (!cuda) throw new UsageError(`--device takes auto, cpu, cuda or cuda:N, not ${JSON.stringify(choice)}`);
  return { kind: 'cuda', index: Number(cuda[1] ?? index) };
}

/** Which of them a process takes is no question here: one that is not there says so itself. */
function hasGpu(): boolean {
  if (!existsSync(libraryPath('cuda'))) return false;
  try {
    // GPT2_LIBRARY may name either library; what it opens as tells which.
    using device = Device.open({ kind: 'cuda' });
    return device.description.library === 'cuda';
  } catch (error) {
    if (error instanceof Gpt2Error) return false;
    throw error;
  }
}
