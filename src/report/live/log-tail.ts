// Reads a run's log while it grows, is cut by a resume, or is replaced by a new run: the log's newest `run` event, and the lines after
// any position. event-stream.ts sends the lines to viewers.
import { hash } from 'node:crypto';
import { fstatSync, openSync, readSync } from 'node:fs';
import { closing } from '../../base/files/regular-file.ts';
import { logPath } from '../../runs/paths.ts';
import { type RunEvent, readEvent } from '../../runs/schema.ts';

/** The end of a line in a log: a byte offset, and a hash of the bytes before it, which differs if the log was cut and grew again. */
export interface Position {
  readonly offset: number;
  readonly mark: string;
}

export type RunStart = Extract<RunEvent, { event: 'run' }>;

/** Bytes per read. Lines have at most 20 kB; a line longer than a read would be sent in pieces that are not valid events. */
const windowBytes = 64 * 1024;
/** Bytes before a position that `mark` hashes. They differ between any two logs, because each step's line has a time with all digits. */
const markedBytes = 4096;

const markOf = (bytes: Buffer): string => hash('sha256', bytes).slice(0, 16);

/** The position before the first line of any log. */
export const beginning: Position = { offset: 0, mark: markOf(Buffer.alloc(0)) };

export type LogTail = ReturnType<typeof logTailOf>;

/** Makes a reader of a run's log. Opens no file yet: the log need not exist. @param run the run's folder */
export function logTailOf(run: string) {
  const path = logPath(run);
  let end = beginning;
  let seen = '';
  const tail = {
    /** The newest `run` event, which records a start of the run; undefined before the first. */
    start: undefined as RunStart | undefined,
    /** Time of the last write to the log, in milliseconds since 1970; 0 before the first. */
    written: 0,
    /** Reads the new lines of the log. @returns whether the file has changed */
    look: (): boolean =>
      opened(path, false, (file) => {
        const { size, mtimeMs, ino } = fstatSync(file);
        const version = `${size} ${mtimeMs} ${ino}`;
        if (version === seen) return false;
        seen = version;
        tail.written = mtimeMs;
        for (let lines = read(file, end); lines; lines = read(file, end)) {
          if (lines === 'cut') [end, tail.start] = [beginning, undefined];
          else [end, tail.start] = [lines.end, lastStart(lines.text) ?? tail.start];
        }
        return true;
      }),
    /** Complete lines after a position, up to `windowBytes`; 'cut' if the log before the position has changed; undefined if none is new. */
    after: (position: Position) => opened(path, undefined, (file) => read(file, position)),
  };
  return tail;
}

/** Opens the log and calls `use`. Returns `otherwise` if the log cannot be read now (not written yet, disk unmounted). */
function opened<R, O>(path: string, otherwise: O, use: (file: number) => R): R | O {
  try {
    return closing(openSync(path, 'r'), use);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return otherwise;
  }
}

/** Reads the complete lines after a position. @returns their text, without the last line break, and the position of their end */
function read(file: number, { offset, mark }: Position) {
  if (markAt(file, offset) !== mark) return 'cut' as const;
  const window = Buffer.allocUnsafe(windowBytes);
  const length = readSync(file, window, 0, windowBytes, offset);
  if (length === 0) return undefined;
  const lineBreak = window.lastIndexOf('\n', length - 1);
  if (lineBreak < 0 && length < windowBytes) return undefined;
  const [textBytes, bytes] = lineBreak < 0 ? [length, length] : [lineBreak, lineBreak + 1];
  const end = { offset: offset + bytes, mark: markAt(file, offset + bytes) };
  return { text: window.toString('utf8', 0, textBytes), end };
}

/** The hash of up to 4,096 bytes before an offset. If the file is shorter than the offset, '', which is no position's mark. */
function markAt(file: number, offset: number): string {
  const bytes = Buffer.allocUnsafe(Math.min(offset, markedBytes));
  const length = readSync(file, bytes, 0, bytes.length, offset - bytes.length);
  return length < bytes.length ? '' : markOf(bytes);
}

/** The last `run` event in log lines. Parses only the event's line, because parsing every line of a long log takes seconds. */
const lastStart = (text: string): RunStart | undefined =>
  readEvent(text.split('\n').findLast((one) => one.startsWith('{"event":"run",')) ?? '') as RunStart | undefined;
