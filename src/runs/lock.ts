// Locks a run's folder and its log, so that one process at a time writes the run. The folder stays locked if the log is
// removed; on network file systems only the log can be locked.
import { closeSync, constants, fstatSync, openSync, renameSync, statSync } from 'node:fs';
import { type Gpt2Error, gpt2Error, orElse } from '../base/errors.ts';
import { openRegularFile } from '../base/files/regular-file.ts';
import { lockFile } from '../native/file-lock.ts';
import { logPath } from './paths.ts';

export const busy = (run: string): Gpt2Error =>
  gpt2Error`another process is writing ${run}; wait until it ends, or name another --out`;

/** An early check; only a lock keeps other processes out. @throws Gpt2Error if another process writes the run */
export function refuseBusyRun(run: string): void {
  if (!whileIdle(run, () => {})) throw busy(run);
}

/**
 * Runs `work` under the run's lock, or without a lock if no log can be opened.
 * @returns false if another process writes the run
 */
export function whileIdle(run: string, work: () => void): boolean {
  // Null: there is no log, or it cannot be read; opening it for writing reports the reason.
  const lock = orElse(null, () => RunLock.take(run, constants.O_RDONLY));
  if (!lock) return lock === null;
  try {
    work();
  } finally {
    lock.close();
  }
  return true;
}

/** A run's log, open and locked by this process. */
export class RunLock {
  readonly #run: string;
  readonly #folder: number | undefined;
  #log: number;

  private constructor(run: string, folder: number | undefined, log: number) {
    this.#run = run;
    this.#folder = folder;
    this.#log = log;
  }

  /** @returns undefined if another process writes the run. @throws Error if there is no regular file to open as its log */
  static take(run: string, flags: number): RunLock | undefined {
    const open: number[] = [];
    let lock: RunLock | undefined;
    try {
      const folder = openIfReadable(run);
      if (folder !== undefined && !lockFile(open[open.push(folder) - 1]!)) return undefined;
      for (;;) {
        const log = openRegularFile(logPath(run), flags);
        open.push(log);
        if (!lockFile(log)) return undefined;
        if (leadsTo(logPath(run), log) === 'it') {
          lock = new RunLock(run, folder, log);
          return lock;
        }
        // Another process renamed the log between opening and locking.
        closeSync(open.pop()!);
      }
    } finally {
      if (!lock) for (const file of open) closeSync(file);
    }
  }

  get log(): number {
    return this.#log;
  }

  /** Renames the log to `path` and creates an empty one. @throws Gpt2Error if another process was faster */
  setAside(path: string): void {
    renameSync(logPath(this.#run), path);
    let log: number;
    try {
      log = openSync(logPath(this.#run), constants.O_RDWR | constants.O_CREAT | constants.O_EXCL);
    } catch (cause) {
      throw (cause as NodeJS.ErrnoException).code === 'EEXIST' ? busy(this.#run) : cause;
    }
    closeSync(this.#log);
    this.#log = log;
    if (!lockFile(log)) throw busy(this.#run);
  }

  close(): void {
    closeSync(this.#log);
    if (this.#folder !== undefined) closeSync(this.#folder);
  }
}

/** The file to which the path of an open file leads now: `it`, another, or nothing. If unknown, as on an unmounted disk, `it`. */
export function leadsTo(path: string, file: number): 'it' | 'another' | 'nothing' {
  try {
    const [there, here] = [statSync(path, { bigint: true }), fstatSync(file, { bigint: true })];
    return there.ino === here.ino && there.dev === here.dev ? 'it' : 'another';
  } catch (error) {
    return ['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '') ? 'nothing' : 'it';
  }
}

const openIfReadable = (folder: string): number | undefined =>
  orElse(undefined, () => openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY));
