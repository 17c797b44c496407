// Replaces standard streams that would hang or abort the process as it ends. koffi (3.3.4, the newest) then syncs standard output
// and error. If that fails (a full quota, a broken disk, a closed descriptor), koffi prints an error to standard error while
// holding its lock, and hangs. Node aborts if a closed terminal rejects its restored settings.
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { constants, devNull } from 'node:os';
import { isatty } from 'node:tty';
import { isMainThread } from 'node:worker_threads';
import { orElse } from '../base/errors.ts';

/** Installs an exit handler that puts /dev/null in place of failed streams. */
export function replaceFailedStreamsAtExit(): void {
  if (!isMainThread) return;
  const streams = [0, 1, 2].map((descriptor) => ({ descriptor, isTerminal: isatty(descriptor) }));
  process.on('exit', () => {
    for (const { descriptor, isTerminal } of streams) {
      if (isTerminal ? isatty(descriptor) : canSync(descriptor)) continue;
      // It may be closed already.
      orElse(undefined, () => closeSync(descriptor));
      // This takes the lowest free descriptor: the one just closed.
      openSync(devNull, 'r+');
    }
  });
}

/** Whether syncing does not fail. Pipes and devices have nothing to sync. */
function canSync(descriptor: number): boolean {
  try {
    fsyncSync(descriptor);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).errno === -constants.errno.EINVAL;
  }
}
