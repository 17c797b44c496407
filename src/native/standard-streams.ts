// Standard streams that fail, as the process ends. koffi (3.3.4, the newest) syncs standard output and error then, and where that
// fails (a full quota, a broken disk, a closed descriptor) says so on standard error under the lock that it holds: it hangs. And
// Node aborts where a terminal that was closed does not take its settings back.
import { closeSync, fsyncSync, openSync } from 'node:fs';
import { constants, devNull } from 'node:os';
import { isatty } from 'node:tty';
import { isMainThread } from 'node:worker_threads';

/** From now on, puts /dev/null in their place as the process ends. */
export function replaceFailedStreamsAtExit(): void {
  if (!isMainThread) return;
  const streams = [0, 1, 2].map((descriptor) => ({ descriptor, isTerminal: isatty(descriptor) }));
  process.on('exit', () => {
    for (const { descriptor, isTerminal } of streams) {
      if (isTerminal ? isatty(descriptor) : canSync(descriptor)) continue;
      try {
        closeSync(descriptor);
      } catch {
        // It was closed already.
      }
      // The lowest free descriptor: this one.
      openSync(devNull, 'r+');
    }
  });
}

/** Pipes and devices have nothing to sync. */
function canSync(descriptor: number): boolean {
  try {
    fsyncSync(descriptor);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).errno === -constants.errno.EINVAL;
  }
}
