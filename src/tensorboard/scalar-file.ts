// A run's curves as an event file of TensorBoard, written as they come. Each start of a run has a file of its own, which says
// from which step on it counts: TensorBoard then drops what an earlier file has from that step on, so that no step of a
// resumed run is there twice.
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { Gpt2Error } from '../errors.ts';
import { evaluationsAt } from '../runs/reader.ts';
import type { RunEvent } from '../runs/schema.ts';
import { type EventContent, eventRecord } from './event-record.ts';

interface ScalarOptions {
  /** Empty: the run's own. */
  readonly folder: string;
  /** The step that the run goes on from. */
  readonly startStep: number;
  /** Told when the disk takes no more: training goes on. */
  readonly notice: (text: string) => void;
}

/** The file of a run that starts, or goes on. @throws as the file itself */
export function openScalarFile(run: string, { folder, startStep, notice }: ScalarOptions): ScalarFile {
  const scalars = new ScalarFile(folder || run, startStep, notice);
  // The step that a run goes on from was evaluated before it was saved, and is not again: the new file has to have it.
  if (startStep > 0) for (const event of evaluationsAt(run, startStep)) scalars.add(event);
  return scalars;
}

/** TensorBoard reads files whose name has this word. */
const namePart = 'tfevents';

export class ScalarFile {
  readonly #path: string;
  readonly #file: number;
  readonly #notice: (text: string) => void;
  #bytes = 0;
  #failed = false;

  /**
   * Makes a file in a folder.
   * @param from the step that the run goes on from
   * @param notice told when the disk takes no more: training goes on
   * @throws Gpt2Error if it cannot be written
   */
  constructor(folder: string, from: number, notice: (text: string) => void) {
    try {
      mkdirSync(folder, { recursive: true });
      this.#path = join(folder, nextName(folder));
      this.#file = openSync(this.#path, 'wx');
    } catch (cause) {
      throw new Gpt2Error(
        `cannot write TensorBoard's events to ${folder}: ${(cause as Error).message}; name another folder with --tensorboard`,
        { cause },
      );
    }
    this.#notice = notice;
    this.#write(from, { fileVersion: 'brain.Event:2' });
    this.#write(from, { start: true });
  }

  /** Writes what an event of the run has to plot. */
  add(event: RunEvent): void {
    const point = pointOf(event);
    if (point) this.#write(point.step, { scalars: point.scalars });
  }

  /** Sees what is written onto the disk. What it does not take is told: the run ends as it would have. */
  close(): void {
    try {
      try {
        fsyncSync(this.#file);
      } finally {
        closeSync(this.#file);
      }
    } catch (cause) {
      this.#notice(`${this.#path} may lack steps: ${(cause as Error).message}; the log has them`);
    }
  }

  #write(step: number, content: EventContent): void {
    const record = eventRecord(Date.now() / 1000, step, content);
    try {
      // A record that the disk took only a part of is overwritten by the next.
      for (let done = 0; done < record.length; ) {
        done += writeSync(this.#file, record, done, record.length - done, this.#bytes + done);
      }
      this.#bytes += record.length;
      this.#failed = false;
    } catch (cause) {
      const { message } = cause as Error;
      if (!this.#failed) this.#notice(`${this.#path} lacks steps: ${message}; the log has them, and training goes on`);
      this.#failed = true;
    }
  }
}

/** Files are read in the order of their names: by the second, and of several starts in one second by their number. */
function nextName(folder: string): string {
  const count = readdirSync(folder).filter((name) => name.includes(namePart)).length;
  const seconds = String(Math.floor(Date.now() / 1000)).padStart(10, '0');
  return `events.out.${namePart}.${seconds}.${String(count).padStart(4, '0')}.gpt2`;
}

function pointOf(event: RunEvent): { step: number; scalars: Record<string, number> } | undefined {
  switch (event.event) {
    case 'train': {
      const { step, loss, norm, lr, tokensPerSecond } = event;
      return { step, scalars: { 'train/loss': loss, norm, lr, tokens_per_second: tokensPerSecond } };
    }
    case 'val':
      return { step: event.step, scalars: { 'val/loss': event.loss } };
    case 'hellaswag':
      return { step: event.step, scalars: { 'hellaswag/acc': event.acc, 'hellaswag/acc_norm': event.accNorm } };
    default:
      return undefined;
  }
}
