// Opens a run folder for writing, and appends events to its log: one line per event, one write per line. If a write fails, the lines
// stay in memory until a later write succeeds, so a full disk neither loses lines nor ends the run.
import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, readFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { attempt, explained, Gpt2Error, gpt2Error } from '../base/errors.ts';
import { checkedJson } from '../base/files/checked-json.ts';
import { makeFolder } from '../base/files/make-folder.ts';
import { openRegularFile, readFully } from '../base/files/regular-file.ts';
import { writeDurably } from '../data/shards/shard.ts';
import type { Configuration } from '../options/table.ts';
import { removeCheckpoints } from '../weights/checkpoint/prune.ts';
import { refuseOccupied } from './existing.ts';
import { busy, leadsTo, lockRun, type RunLock } from './lock.ts';
import { checkpointsFolder, configPath, logPath, nextEarlierLog, rankLogPath, rescuePath } from './paths.ts';
import { formatEvent, type RunEvent, readEvent } from './schema.ts';

export class RunLog {
  #path: string;
  #open: { readonly log: number; close(): void };
  /** Bytes of complete lines on the disk. */
  #bytes: number;
  #waiting: Buffer[] = [];
  #failure: Gpt2Error | undefined;
  #closed = false;

  private constructor(path: string, open: { readonly log: number; close(): void }, bytes: number) {
    this.#path = path;
    this.#open = open;
    this.#bytes = bytes;
  }

  /**
   * @param before called with the path to which a previous log was renamed
   * @throws Gpt2Error if the folder cannot be written, or holds files that must not be replaced: see `refuseOccupied`
   */
  static create(
    run: string,
    { configuration, overwrite }: { configuration: Configuration; overwrite: boolean },
    before: (path: string) => void = () => {},
  ): RunLog {
    const failed = (cause: unknown) => gpt2Error`cannot write the run folder ${run}: ${cause}; name another with --out`;
    return openLocked(run, failed, (lock) => {
      refuseOccupied(run, { overwrite });
      removeCheckpoints(checkpointsFolder(run));
      writeConfiguration(run, configuration);
      if (fstatSync(lock.log).size > 0) {
        const path = nextEarlierLog(run);
        lock.setAside(path);
        before(path);
      }
      return new RunLog(logPath(run), lock, 0);
    });
  }

  /**
   * Continues a run's log after its first `bytes` bytes; the rest is cut off. A crash of the machine can leave an incomplete line, or
   * lines that are not events, at the end of the kept bytes. That end is cut off too, so that the next event starts a new line.
   * @throws Gpt2Error if the log cannot be written
   */
  static resume(run: string, { configuration, bytes }: { configuration: Configuration; bytes: number }): RunLog {
    const failed = (cause: unknown) => gpt2Error`cannot continue the log ${logPath(run)}: ${cause}`;
    return openLocked(run, failed, (lock) => {
      const kept = lengthOfEvents(readFileSync(logPath(run)).subarray(0, bytes));
      writeConfiguration(run, configuration);
      ftruncateSync(lock.log, kept);
      return new RunLog(logPath(run), lock, kept);
    });
  }

  /** Continues the log of a rank other than 0. @throws Gpt2Error if the log cannot be written */
  static ofRank(run: string, rank: number): RunLog {
    const path = rankLogPath(run, rank);
    return explained(`cannot write the log ${path}`, undefined, () => {
      makeFolder(dirname(path));
      const log = openRegularFile(path, constants.O_RDWR | constants.O_CREAT);
      return new RunLog(path, { log, close: () => closeSync(log) }, fstatSync(log).size);
    });
  }

  /** The log's length in bytes, for a checkpoint's manifest and `resume`. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The reason that lines are waiting; undefined if all are written. */
  get failure(): Gpt2Error | undefined {
    return this.#failure;
  }

  /** Appends an event and returns its line. After a failed write (`failure`) the line waits in memory. */
  write(event: RunEvent): string {
    const line = formatEvent(event);
    this.#waiting.push(Buffer.from(line));
    this.#writeWaiting();
    return line;
  }

  /** Writes the waiting lines. @throws Gpt2Error if the disk still fails */
  flush(): void {
    this.#writeWaiting();
    if (this.#failure) throw this.#failure;
  }

  #writeWaiting(): void {
    try {
      for (let line = this.#waiting[0]; line; line = this.#waiting[0]) {
        // One write is enough, unless the disk accepts only part of the line: the next write then fails with the reason.
        for (let done = 0; done < line.length; ) {
          done += writeSync(this.#open.log, line, done, line.length - done, this.#bytes + done);
        }
        this.#bytes += line.length;
        this.#waiting.shift();
      }
      this.#failure = undefined;
    } catch (cause) {
      this.#failure = gpt2Error`cannot write ${this.#waiting.length} lines to ${this.#path}: ${cause}`;
    }
  }

  /** The reason the log or its folder is no longer in place; undefined if it is still in place. */
  get lost(): string | undefined {
    const found = leadsTo(this.#path, this.#open.log);
    if (found === 'it') return undefined;
    return `${this.#path} was ${found === 'nothing' ? 'removed or moved' : 'replaced by another file'} during the run`;
  }

  /**
   * Writes a lost log again, with every line so far: in `run` or, if another run or file has taken this path, in a folder next to `run`.
   * @returns the run folder and how the log was lost; undefined if the log is in place
   * @throws Gpt2Error if the log cannot be written
   */
  restore(run: string, configuration: Configuration): { out: string; lost: string } | undefined {
    const { lost } = this;
    if (lost === undefined) return undefined;
    const lines = Buffer.alloc(this.#bytes);
    explained(`${this.#path} cannot be read`, undefined, () => readFully(this.#open.log, lines, 0));
    for (let number = 0; ; number++) {
      const out = number === 0 ? run : rescuePath(run, number);
      try {
        refuseOccupied(out, { overwrite: false });
        const there = RunLog.create(out, { configuration, overwrite: false });
        this.#open.close();
        this.#open = there.#open;
        this.#path = there.#path;
        this.#bytes = 0;
        this.#waiting.unshift(lines);
        return { out, lost };
      } catch (cause) {
        if (!(cause instanceof Gpt2Error)) throw cause;
        // Try the next folder if `out` is taken by a run (an error without cause) or by a file (EEXIST). Other causes are disk errors.
        const { code = 'EEXIST' } = (cause.cause ?? {}) as NodeJS.ErrnoException;
        if (code === 'EEXIST') continue;
        throw gpt2Error`${lost} and cannot be written again: ${cause}`;
      }
    }
  }

  /** Closes the log; a second call does nothing. @throws Gpt2Error if the last lines may not be on the disk */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    explained(`${this.#path} may lack its last lines`, 'check the disk', () => {
      try {
        fsyncSync(this.#open.log);
      } finally {
        this.#open.close();
      }
    });
  }
}

/** Locks a run, then calls `open`. @throws Gpt2Error if another process writes the run; for other errors, the result of `failed` */
function openLocked(run: string, failed: (cause: unknown) => Gpt2Error, open: (lock: RunLock) => RunLog): RunLog {
  let lock: RunLock | undefined;
  try {
    makeFolder(run);
    lock = lockRun(run, constants.O_RDWR | constants.O_CREAT);
    if (lock) return open(lock);
  } catch (cause) {
    lock?.close();
    throw cause instanceof Gpt2Error ? cause : failed(cause);
  }
  throw busy(run);
}

/** Length in bytes of a log up to the end of its last line that is an event. */
function lengthOfEvents(log: Buffer): number {
  let end = log.lastIndexOf('\n') + 1;
  while (end > 0) {
    const start = end > 1 ? log.lastIndexOf('\n', end - 2) + 1 : 0;
    if (readEvent(log.toString('utf8', start, end - 1))) return end;
    end = start;
  }
  return 0;
}

/** Writes config.json as durably as a checkpoint. @throws the error of the disk */
function writeConfiguration(run: string, configuration: Configuration): void {
  const path = configPath(run);
  const written = attempt(() => writeDurably(path, [Buffer.from(checkedJson(configuration))], `${path}.tmp`));
  if (written instanceof Gpt2Error) throw written.cause;
}
