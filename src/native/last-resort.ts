// Ends a process whose main thread may hang, where JavaScript cannot: in a driver, a compiler, or a kernel on a CPU.
import { constants } from 'node:os';
import { demands, sameDemandMilliseconds, secondDemand } from '../base/signals.ts';
import type { LibraryKind } from './find-library.ts';
import { loadLibrary } from './library.ts';

/**
 * Prints a text and ends this process with exit code 1 after a time, unless it has ended before. A GPU can wait forever for a rank that
 * has ended, and freeing its memory waits too.
 */
export function endLater(library: LibraryKind, text: string, milliseconds: number): void {
  const bytes = new TextEncoder().encode(text);
  loadLibrary(library).endLater({ text: bytes, bytes: bytes.length, milliseconds, exitCode: 1 });
}

/** Makes a second demand end this process, if the command line listens for demands, also while JavaScript waits for a kernel. */
export function endAtSecondDemand(library: LibraryKind): void {
  if (!secondDemand.endsProcess) return;
  const signals = Int32Array.from(demands, (name) => constants.signals[name]);
  const times = { apart: sameDemandMilliseconds, grace: 1000 };
  loadLibrary(library).endAtSecondSignal({ signals, count: signals.length, ...times });
}
