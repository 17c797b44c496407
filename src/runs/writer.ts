// Opens a run folder for writing, and appends events to its log: one line an event, one write a line, as it happens. What
// the disk does not take waits in memory: a full disk costs a run no line and does not end it.
// What an event holds is in schema.ts, reading a log back in reader.ts; checkpoints are written by ../checkpoint.
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { checkedJson } from '../files/checked-json.ts';
import { openRegularFile } from '../files/regular-file.ts';
import { lockFile } from '../native/library.ts';
import { checkpointsFolder, configPath, logPath, rankLogPath } from './paths.ts';
import { type Configuration, formatEvent, type RunEvent } from './schema.ts';

/** @throws Gpt2Error if the folder already holds a run */
export function refuseExistingRun(run: string): void {
  if (!existsSync(logPath(run)) && !existsSync(checkpointsFolder(run))) return;
  throw new Gpt2Error(
    `${run} already holds a run: continue it with --resume, replace it with --overwrite, or name another --out`,
  );
}

/** What is true later as well only of a log that is opened. @throws Gpt2Error if another process writes the run */
export function refuseBusyRun(run: string): void {
  if (!whileIdle(run, () => {})) throw busy(run);
}

/** Does some work while no process writes a run, and keeps others from it meanwhile. @returns false if one does */
export function whileIdle(run: string, work: () => void): boolean {
  let file: number;
  try {
    file = openRegularFile(logPath(run));
  } catch {
    // There is none; or what keeps it from being read is said when it is to be written.
    return true;
  }
  try {
    if (!lockFile(file)) return false;
    work();
    return true;
  } finally {
    closeSync(file);
  }
}

const busy = (run: string): Gpt2Error =>
  new Gpt2Error(`${run} is being written by another process; wait for its end or name another --out`);

/** The log of a run folder, open for writing. */
export class RunLog {
  readonly #path: string;
  readonly #file: number;
  /** Of whole lines on the disk. */
  #bytes: number;
  #waiting: Buffer[] = [];
  #failure: Gpt2Error | undefined;
  #closed = false;

  private constructor(path: string, file: number, bytes: number) {
    this.#path = path;
    this.#file = file;
    this.#bytes = bytes;
  }

  /**
   * Starts a run in a folder.
   * @throws Gpt2Error if the folder cannot be written, or holds a run and `overwrite` is not given
   */
  static create(
    run: string,
    { configuration, overwrite }: { configuration: Configuration; overwrite: boolean },
  ): RunLog {
    if (!overwrite) refuseExistingRun(run);
    const failed = (cause: Error) =>
      new Gpt2Error(`cannot write the run folder ${run}: ${cause.message}; name another with --out`, { cause });
    return openLocked(run, failed, (file) => {
      rmSync(checkpointsFolder(run), { recursive: true, force: true });
      writeConfiguration(run, configuration);
      ftruncateSync(file);
      return new RunLog(logPath(run), file, 0);
    });
  }

  /**
   * Continues a run's log after its first `bytes` bytes; what lies beyond is cut off. A log that is shorter (the machine
   * went down before its end reached the disk) loses its torn last line, so that the next one starts on a line of its own.
   * @throws Gpt2Error if it cannot be written
   */
  static resume(run: string, { configuration, bytes }: { configuration: Configuration; bytes: number }): RunLog {
    const failed = (cause: Error) =>
      new Gpt2Error(`cannot continue the log ${logPath(run)}: ${cause.message}`, { cause });
    return openLocked(run, failed, (file) => {
      const kept = readFileSync(logPath(run)).subarray(0, bytes).lastIndexOf('\n') + 1;
      writeConfiguration(run, configuration);
      ftruncateSync(file, kept);
      return new RunLog(logPath(run), file, kept);
    });
  }

  /** The log of one of several ranks but 0, behind what it has of before. @throws Gpt2Error if it cannot be written */
  static ofRank(run: string, rank: number): RunLog {
    const path = rankLogPath(run, rank);
    try {
      mkdirSync(dirname(path), { recursive: true });
      closeSync(openSync(path, 'a'));
      return new RunLog(path, openSync(path, 'r+'), statSync(path).size);
    } catch (cause) {
      throw new Gpt2Error(`cannot write the log ${path}: ${(cause as Error).message}`, { cause });
    }
  }

  /** The log's length in bytes: what a checkpoint's manifest notes, and `resume` takes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Why lines are waiting; undefined while all are written. */
  get failure(): Gpt2Error | undefined {
    return this.#failure;
  }

  /** Appends an event and gives its line, for whoever else is to read it (`--json`). See `failure`. */
  write(event: RunEvent): string {
    const line = formatEvent(event);
    this.#waiting.push(Buffer.from(line));
    this.#writeWaiting();
    return line;
  }

  /** @throws Gpt2Error if lines wait that still cannot be written */
  settle(): void {
    this.#writeWaiting();
    if (this.#failure) throw this.#failure;
  }

  #writeWaiting(): void {
    try {
      for (let line = this.#waiting[0]; line; line = this.#waiting[0]) {
        // One write, unless the disk takes only part of it: then the next says why, and the line is begun anew.
        for (let done = 0; done < line.length; ) {
          done += writeSync(this.#file, line, done, line.length - done, this.#bytes + done);
        }
        this.#bytes += line.length;
        this.#waiting.shift();
      }
      this.#failure = undefined;
    } catch (cause) {
      const { message } = cause as Error;
      this.#failure = new Gpt2Error(`cannot write ${this.#waiting.length} lines to ${this.#path}: ${message}`, {
        cause,
      });
    }
  }

  /**
   * Sees what is written onto the disk and closes the log; a second time does nothing.
   * @throws Gpt2Error if the disk may not have it all
   */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      try {
        fsyncSync(this.#file);
      } finally {
        closeSync(this.#file);
      }
    } catch (cause) {
      const { message } = cause as Error;
      throw new Gpt2Error(`${this.#path} may lack its last lines: ${message}; check the disk`, { cause });
    }
  }
}

/**
 * Opens the log of a run for this process alone, before anything in its folder is touched.
 * @throws Gpt2Error if another process writes it; `failed` for whatever else goes wrong
 */
function openLocked(run: string, failed: (cause: Error) => Gpt2Error, open: (file: number) => RunLog): RunLog {
  let file: number | undefined;
  try {
    mkdirSync(run, { recursive: true });
    file = openSync(logPath(run), constants.O_RDWR | constants.O_CREAT);
    if (lockFile(file)) return open(file);
  } catch (cause) {
    if (file !== undefined) closeSync(file);
    throw failed(cause as Error);
  }
  closeSync(file);
  throw busy(run);
}

function writeConfiguration(run: string, configuration: Configuration): void {
  const temporary = `${configPath(run)}.tmp`;
  writeFileSync(temporary, checkedJson(configuration));
  renameSync(temporary, configPath(run));
}
