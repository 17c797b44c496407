// Ends this process even if its main thread hangs in native code, where no JavaScript runs: a driver, a compiler, a kernel on a CPU.
import { constants } from 'node:os';
import { demands, sameDemandMilliseconds, secondDemand } from '../base/signals.ts';
import type { LibraryKind } from './find-library.ts';
import { loadLibrary } from './library.ts';

/**
 * After a time, prints a text and ends this process with exit code 1, if the process is still running. Without this, a process could
 * hang forever: a GPU may wait for a rank that has ended, and freeing the GPU's memory then waits too.
 */
export function endLater(library: LibraryKind, text: string, milliseconds: number): void {
  const bytes = new TextEncoder().encode(text);
  loadLibrary(library).endLater({ text: bytes, bytes: bytes.length, milliseconds, exitCode: 1 });
}

/** If the command line started this process: a second Ctrl-C (or other signal to end) ends the process, even in a wait for a kernel. */
export function endAtSecondDemand(library: LibraryKind): void {
  if (!secondDemand.endsProcess) return;
  const signals = Int32Array.from(demands, (name) => constants.signals[name]);
  const times = { apart: sameDemandMilliseconds, grace: 1000 };
  loadLibrary(library).endAtSecondSignal({ signals, count: signals.length, ...times });
}
