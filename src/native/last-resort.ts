// Ends a process whose main thread hangs where no JavaScript runs: in a driver, a compiler, or a kernel on a CPU.
import { constants } from 'node:os';
import { demands, sameDemandMilliseconds, secondDemand } from '../base/signals.ts';
import type { LibraryKind } from './find-library.ts';
import { loadLibrary } from './library.ts';

/**
 * Prints a text and ends this process with exit code 1 after a time, unless the process has ended before. A GPU can wait
 * forever for a rank that has ended, and freeing the GPU's memory waits too.
 */
export function endLater(library: LibraryKind, text: string, milliseconds: number): void {
  const bytes = new TextEncoder().encode(text);
  loadLibrary(library).endLater({ text: bytes, bytes: bytes.length, milliseconds, exitCode: 1 });
}

/** Makes a second demand (base/signals.ts) end this process even while JavaScript waits for a kernel; on the command line. */
export function endAtSecondDemand(library: LibraryKind): void {
  if (!secondDemand.endsProcess) return;
  const signals = Int32Array.from(demands, (name) => constants.signals[name]);
  const times = { apart: sameDemandMilliseconds, grace: 1000 };
  loadLibrary(library).endAtSecondSignal({ signals, count: signals.length, ...times });
}
