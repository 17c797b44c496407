// The end of a process whose main thread may never come back: a GPU can wait for ever for a rank that is gone, and who frees
// its memory waits with it.
import { type LibraryKind, loadLibrary } from '../native/library.ts';

/** Ends this process with exit code 1 after a time, unless it has ended by itself, with what there is to say. */
export function endLater(library: LibraryKind, text: string, milliseconds: number): void {
  const bytes = new TextEncoder().encode(text);
  loadLibrary(library).endLater({ text: bytes, bytes: bytes.length, milliseconds, exitCode: 1 });
}
