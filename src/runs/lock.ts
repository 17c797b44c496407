// Locks a run's folder and its log, so that one process at a time writes the run. The lock of the folder holds even if the log is
// removed; the lock of the log also works on network file systems, where a folder cannot be locked.
import { closeSync, constants, fstatSync, openSync, renameSync, statSync } from 'node:fs';
import { type Gpt2Error, gpt2Error, orElse } from '../base/errors.ts';
import { openRegularFile } from '../base/files/regular-file.ts';
import { lockFile } from '../native/file-lock.ts';
import { logPath } from './paths.ts';

export const busy = (run: string): Gpt2Error =>
  gpt2Error`another process is writing ${run}; wait until it ends, or name another --out`;

/** Checks that no other process writes the run, without keeping a lock. @throws Gpt2Error if another process does */
export function refuseBusyRun(run: string): void {
  if (!whileIdle(run, () => {})) throw busy(run);
}

/**
 * Runs `work` under the run's lock, or without a lock if no log can be opened.
 * @returns false if another process writes the run
 */
export function whileIdle(run: string, work: () => void): boolean {
  // `lock` is null if the log is missing or cannot be read; opening the log for writing reports the reason later.
  const lock = orElse(null, () => lockRun(run, constants.O_RDONLY));
  if (!lock) return lock === null;
  try {
    work();
  } finally {
    lock.close();
  }
  return true;
}

export type RunLock = ReturnType<typeof locked>;

/**
 * Opens and locks a run's log.
 * @returns undefined if another process writes the run
 * @throws Error if the log is missing or is not a regular file
 */
export function lockRun(run: string, flags: number): RunLock | undefined {
  const open: number[] = [];
  let lock: RunLock | undefined;
  try {
    // A folder that cannot be read stays unlocked; the lock of the log remains.
    const folder = orElse(undefined, () => openSync(run, constants.O_RDONLY | constants.O_DIRECTORY));
    if (folder !== undefined && !lockFile(open[open.push(folder) - 1]!)) return undefined;
    for (;;) {
      const log = openRegularFile(logPath(run), flags);
      open.push(log);
      if (!lockFile(log)) return undefined;
      if (leadsTo(logPath(run), log) === 'it') {
        lock = locked(run, folder, log);
        return lock;
      }
      // Try again: another process renamed the log between our opening and locking it.
      closeSync(open.pop()!);
    }
  } finally {
    if (!lock) for (const file of open) closeSync(file);
  }
}

/** A run's log, open and locked by this process. */
function locked(run: string, folder: number | undefined, log: number) {
  const lock = {
    log,
    /** Renames the log to `path` and creates an empty log. @throws Gpt2Error if another process has created or locked a log before */
    setAside(path: string): void {
      renameSync(logPath(run), path);
      const { O_RDWR, O_CREAT, O_EXCL } = constants;
      let created: number;
      try {
        created = openSync(logPath(run), O_RDWR | O_CREAT | O_EXCL);
      } catch (cause) {
        throw (cause as NodeJS.ErrnoException).code === 'EEXIST' ? busy(run) : cause;
      }
      closeSync(lock.log);
      lock.log = created;
      if (!lockFile(created)) throw busy(run);
    },
    close(): void {
      closeSync(lock.log);
      if (folder !== undefined) closeSync(folder);
    },
  };
  return lock;
}

/** Whether `path` leads to the open file ('it'), to another file, or to nothing; 'it' too if unknown, as on an unmounted disk. */
export function leadsTo(path: string, file: number): 'it' | 'another' | 'nothing' {
  try {
    const [there, here] = [statSync(path, { bigint: true }), fstatSync(file, { bigint: true })];
    return there.ino === here.ino && there.dev === here.dev ? 'it' : 'another';
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '') ? 'nothing' : 'it';
  }
}
