// Writes a run's curves to TensorBoard event files while the run trains. Each start of the run writes a new file, with the step of the
// start: TensorBoard then drops this step and later steps of earlier files, so that no step of a resumed run appears twice.
import { openSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { explained, words } from '../../base/errors.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { syncAndClose } from '../../base/files/regular-file.ts';
import { evaluationsAt } from '../../runs/reader.ts';
import type { RunEvent } from '../../runs/schema.ts';
import { type EventContent, eventRecord } from './event-record.ts';

/** TensorBoard recognizes event files by this word in their names. */
const namePart = 'tfevents';

export type ScalarFile = ReturnType<typeof openScalarFile>;

interface ScalarOptions {
  /** Folder of the event files; empty: the run's folder. */
  readonly folder: string;
  /** The step at which this start of the run begins; 0 for a new run. */
  readonly startStep: number;
  /** Called with a message when a write fails. Training continues. */
  readonly notice: (text: string) => void;
}

/** Creates the event file for one start of a run. @throws Gpt2Error if the file cannot be created */
export function openScalarFile(run: string, { folder: named, startStep, notice }: ScalarOptions) {
  const folder = named || run;
  const advice = words`name another folder with --tensorboard`;
  const [path, file] = explained(`cannot write TensorBoard's events to ${folder}`, advice, () => {
    makeFolder(folder);
    const path = join(folder, nextName(folder));
    return [path, openSync(path, 'wx')] as const;
  });
  let bytes = 0;
  let failed = false;
  const write = (step: number, content: EventContent): void => {
    const record = eventRecord(Date.now() / 1000, step, content);
    try {
      // `bytes` grows after the whole record is written: if a write fails midway, the next record overwrites the partial record.
      for (let done = 0; done < record.length; ) {
        done += writeSync(file, record, done, record.length - done, bytes + done);
      }
      bytes += record.length;
      failed = false;
    } catch (cause) {
      const { message } = cause as Error;
      if (!failed) notice(`${path} lacks steps: ${message}; the log has them, and training continues`);
      failed = true;
    }
  };
  const add = (event: RunEvent): void => {
    const point = pointOf(event);
    if (point) write(point.step, { scalars: point.scalars });
  };
  write(startStep, { fileVersion: 'brain.Event:2' });
  write(startStep, { start: true });
  // Add the evaluations at this step from the log: a resumed run does not repeat evaluations that ran before the checkpoint was saved.
  if (startStep > 0) for (const event of evaluationsAt(run, startStep)) add(event);
  return {
    add,
    /** Flushes and closes the file. If the disk fails, prints a notice, so that the run ends as it would without TensorBoard. */
    close(): void {
      try {
        syncAndClose(file);
      } catch (cause) {
        notice(`${path} may lack steps: ${(cause as Error).message}; the log has them`);
      }
    },
  };
}

/** The name of a new file. TensorBoard reads files sorted by name, so the name begins with the time in seconds, then a count. */
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
