// Loads shared libraries through koffi. No other file imports koffi, so another FFI could replace it here. It is loaded with the
// first library: a program that only imports this package gets neither koffi's settings nor the exit handler.
import { createRequire } from 'node:module';
import type koffi from 'koffi';
import type { LibraryHandle } from 'koffi';
import { orElse } from '../base/errors.ts';
import { lazily } from '../base/lazily.ts';
import { replaceFailedStreamsAtExit } from './standard-streams.ts';

const load = lazily((): typeof koffi => {
  replaceFailedStreamsAtExit();
  const made = createRequire(import.meta.url)('koffi') as typeof koffi;
  // koffi runs native code on its own stack, 2 MiB by default, which a deep driver call could overflow. The size can be
  // set only before the process loads its first library.
  // If another user of koffi in this process was first, its setting holds.
  orElse(undefined, () => made.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 }));
  return made;
});

/** @throws Error if the file is no library, or one of its dependencies is missing */
export const loadShared = (path: string): LibraryHandle => load().load(path);

export const lastErrno = (): number => load().errno();

/** A view of `bytes` of native memory from an address on. Do not use the view after the memory is freed. */
export const viewMemory = (address: bigint, bytes: number): ArrayBuffer => load().view(address, bytes);
