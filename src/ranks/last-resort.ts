// Ends a process whose main thread may hang: a GPU can wait forever for a rank that has ended, and freeing its memory waits too.
import type { LibraryKind } from '../native/find-library.ts';
import { loadLibrary } from '../native/library.ts';

/** Prints a text and ends this process with exit code 1 after a time, unless it has ended before. */
export function endLater(library: LibraryKind, text: string, milliseconds: number): void {
  const bytes = new TextEncoder().encode(text);
  loadLibrary(library).endLater({ text: bytes, bytes: bytes.length, milliseconds, exitCode: 1 });
}
