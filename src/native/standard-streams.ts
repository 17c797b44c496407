// Replaces standard streams that would make the process hang or abort when it exits. At exit, koffi 3.3.4 syncs standard
// output and standard error. If syncing fails (full quota, broken disk, closed descriptor), koffi prints an error to standard error
// while it holds the stream's lock, and hangs. Node aborts if it cannot restore the settings of a terminal that was closed.
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { constants, devNull } from 'node:os';
import { isatty } from 'node:tty';
import { isMainThread } from 'node:worker_threads';
import { orElse } from '../base/errors.ts';

/** Installs an exit handler that replaces failed standard streams by /dev/null. */
export function replaceFailedStreamsAtExit(): void {
  if (!isMainThread) return;
  const streams = [0, 1, 2].map((descriptor) => ({ descriptor, isTerminal: isatty(descriptor) }));
  process.on('exit', () => {
    for (const { descriptor, isTerminal } of streams) {
      if (isTerminal ? isatty(descriptor) : canSync(descriptor)) continue;
      // Ignores an error: the descriptor may already be closed.
      orElse(undefined, () => closeSync(descriptor));
      // The new file gets the lowest free descriptor, which is the one just closed.
      openSync(devNull, 'r+');
    }
  });
}

/** Whether fsync works on a descriptor. EINVAL counts as working: pipes and devices have nothing to sync. */
function canSync(descriptor: number): boolean {
  try {
    fsyncSync(descriptor);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).errno === -constants.errno.EINVAL;
  }
}
