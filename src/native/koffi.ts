// Loads shared libraries through koffi. No other file imports it, so another FFI could replace it here.
import koffi, { type LibraryHandle } from 'koffi';
import { replaceFailedStreamsAtExit } from './standard-streams.ts';

// Importing koffi makes it necessary.
replaceFailedStreamsAtExit();

// koffi runs native code on its own stack, 2 MiB by default, which a deep driver call could overflow. The size can be
// set only before the process loads its first library.
try {
  koffi.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 });
} catch {
  // Another user of koffi in this process was first; its setting holds.
}

/** @throws Error if the file is no library, or one of its dependencies is missing */
export const loadShared = (path: string): LibraryHandle => koffi.load(path);

/** errno of the last call. */
export const lastErrno = (): number => koffi.errno();

/** A view of `bytes` of native memory from an address on. Do not use it after the memory is freed. */
export const viewMemory = (address: bigint, bytes: number): ArrayBuffer => koffi.view(address, bytes);
