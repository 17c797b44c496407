// Loads shared libraries through koffi, the only file that imports it: another FFI would replace it here.
import koffi, { type LibraryHandle } from 'koffi';
import { replaceFailedStreamsAtExit } from './standard-streams.ts';

// Called here because importing koffi makes it necessary.
replaceFailedStreamsAtExit();

let isStackSet = false;

/**
 * koffi runs native code on a stack of its own, 2 MiB by default; a deep OpenMP or driver call must not overflow it. It can
 * be set only before the first library of the process is loaded.
 */
function setStackSize(): void {
  if (isStackSet) return;
  isStackSet = true;
  try {
    koffi.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 });
  } catch {
    // Another user of koffi in this process was first; its setting holds.
  }
}

/** @throws Error if the file is no library, or one of its dependencies is missing */
export function loadShared(path: string): LibraryHandle {
  setStackSize();
  return koffi.load(path);
}

/** errno of the last call. */
export const lastErrno = (): number => koffi.errno();

/** `bytes` of native memory from an address on, as the host sees it. Not to be used after the memory is freed. */
export const viewMemory = (address: bigint, bytes: number): ArrayBuffer => koffi.view(address, bytes);
