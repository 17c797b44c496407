// Loads shared libraries through koffi, a foreign function interface (FFI) that only this file imports. koffi is loaded with the first
// library: until then, importing this package changes no settings of koffi and adds no exit handler.
import { createRequire } from 'node:module';
import type koffi from 'koffi';
import type { LibraryHandle } from 'koffi';
import { orElse } from '../base/errors.ts';
import { lazily } from '../base/lazily.ts';
import { replaceFailedStreamsAtExit } from './standard-streams.ts';

const load = lazily((): typeof koffi => {
  replaceFailedStreamsAtExit();
  const made = createRequire(import.meta.url)('koffi') as typeof koffi;
  // koffi runs native code on a separate stack of 2 MiB by default, which a deep driver call could overflow. The size can be
  // set only before the process loads its first library. If other code in this process has already used koffi, this
  // call fails, and the size stays unchanged.
  orElse(undefined, () => made.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 }));
  return made;
});

/** Loads a shared library. @throws Error if the file is no library, or one of its dependencies is missing */
export const loadShared = (path: string): LibraryHandle => load().load(path);

export const lastErrno = (): number => load().errno();

/** A view of `bytes` bytes of native memory from `address` on. Do not use the view after the memory is freed. */
export const viewMemory = (address: bigint, bytes: number): ArrayBuffer => load().view(address, bytes);
