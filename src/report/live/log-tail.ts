// Follows a run's log while it is written, cut by a resume or started again: its newest `run` event, and the lines after a
// position. event-stream.ts sends them to viewers.
import { hash } from 'node:crypto';
import { fstatSync, openSync, readSync } from 'node:fs';
import { closing } from '../../base/files/regular-file.ts';
import { logPath } from '../../runs/paths.ts';
import { type RunEvent, readEvent } from '../../runs/schema.ts';

/** The end of a line in a log. `mark` is a hash of the bytes before; in a log that was cut and grew again, the hash differs. */
export interface Position {
  readonly offset: number;
  readonly mark: string;
}

export type RunStart = Extract<RunEvent, { event: 'run' }>;

/** Bytes read at once. A longer line would be sent in pieces, which are no events; our lines have at most 20 kB. */
const windowBytes = 64 * 1024;
/** Bytes that a mark hashes. Each step's line has its time with all digits, so two logs do not share this many by chance. */
const markedBytes = 4096;

const markOf = (bytes: Buffer): string => hash('sha256', bytes).slice(0, 16);

/** The start of every log. */
export const beginning: Position = { offset: 0, mark: markOf(Buffer.alloc(0)) };

export type LogTail = ReturnType<typeof logTailOf>;

/** @param run the run's folder; its log need not exist yet */
export function logTailOf(run: string) {
  const path = logPath(run);
  let end = beginning;
  let seen = '';
  const tail = {
    /** The newest event of the run's start. */
    start: undefined as RunStart | undefined,
    /** The time of the last write, in milliseconds since 1970; 0: never. */
    written: 0,
    /** Reads the file's state again. @returns whether it changed */
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
    /** Some of the complete lines after a position; 'cut' if the log before the position has changed. */
    after: (position: Position) => opened(path, undefined, (file) => read(file, position)),
  };
  return tail;
}

/** A log that cannot be read now (missing, its disk not mounted) may be readable later. */
function opened<R, O>(path: string, otherwise: O, use: (file: number) => R): R | O {
  try {
    return closing(openSync(path, 'r'), use);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    return otherwise;
  }
}

/** Complete lines without the last line break, and their end. */
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

/** The mark of an offset; beyond the file's end a mark that no position has. */
function markAt(file: number, offset: number): string {
  const bytes = Buffer.allocUnsafe(Math.min(offset, markedBytes));
  const length = readSync(file, bytes, 0, bytes.length, offset - bytes.length);
  return length < bytes.length ? '' : markOf(bytes);
}

/** The last start in these lines; found as text, because parsing every line of a long log as JSON would take seconds. */
const lastStart = (text: string): RunStart | undefined =>
  readEvent(text.split('\n').findLast((one) => one.startsWith('{"event":"run",')) ?? '') as RunStart | undefined;
