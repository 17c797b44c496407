// Opens a run folder for writing, and appends events to its log: one line an event, one write a line, as it happens.
import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { Gpt2Error } from '../errors.ts';
import { checkpointsFolder, configPath, logPath } from './paths.ts';
import { type Configuration, formatEvent, type RunEvent } from './schema.ts';

/** @throws Gpt2Error if the folder already holds a run */
export function refuseExistingRun(run: string): void {
  if (!existsSync(logPath(run)) && !existsSync(checkpointsFolder(run))) return;
  throw new Gpt2Error(
    `${run} already holds a run: continue it with --resume, replace it with --overwrite, or name another --out`,
  );
}

export class RunLog {
  readonly #path: string;
  readonly #file: number;
  #bytes: number;
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
    try {
      mkdirSync(run, { recursive: true });
      rmSync(checkpointsFolder(run), { recursive: true, force: true });
      const file = openSync(logPath(run), 'w');
      writeConfiguration(run, configuration);
      return new RunLog(logPath(run), file, 0);
    } catch (cause) {
      throw new Gpt2Error(`cannot write the run folder ${run}: ${(cause as Error).message}; name another with --out`, {
        cause,
      });
    }
  }

  /** Continues a run's log after its first `bytes` bytes; what lies beyond is cut off. @throws Gpt2Error */
  static resume(run: string, { configuration, bytes }: { configuration: Configuration; bytes: number }): RunLog {
    try {
      const file = openSync(logPath(run), existsSync(logPath(run)) ? 'r+' : 'w+');
      const kept = Math.min(bytes, fstatSync(file).size);
      ftruncateSync(file, kept);
      writeConfiguration(run, configuration);
      return new RunLog(logPath(run), file, kept);
    } catch (cause) {
      throw new Gpt2Error(`cannot continue the log ${logPath(run)}: ${(cause as Error).message}`, { cause });
    }
  }

  /** Bytes written so far. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Appends an event and gives its line. @throws Gpt2Error if it cannot be written */
  write(event: RunEvent): string {
    const line = formatEvent(event);
    try {
      this.#bytes += writeSync(this.#file, Buffer.from(line), 0, null, this.#bytes);
    } catch (cause) {
      throw new Gpt2Error(`cannot write to ${this.#path}: ${(cause as Error).message}`, { cause });
    }
    return line;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    fsyncSync(this.#file);
    closeSync(this.#file);
  }
}

function writeConfiguration(run: string, configuration: Configuration): void {
  const temporary = `${configPath(run)}.tmp`;
  writeFileSync(temporary, `${JSON.stringify(configuration, null, 2)}\n`);
  renameSync(temporary, configPath(run));
}
