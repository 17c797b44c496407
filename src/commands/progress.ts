// Shows a run to a person: one line per event on stdout and, on a terminal, a status line with bar and time left on stderr.
// The run log has the same facts as JSON (src/runs).
import { clearLine, cursorTo } from 'node:readline';
import { styleText } from 'node:util';
import type { RunEvent } from '../index.ts';
import { describeDone, figuresOf, formatBytes, formatDuration, type RunDescription } from '../program.ts';
import { notice } from './output.ts';

/** Whether stderr is a terminal that a person watches, where a status line can be overwritten. */
export const isLive = process.stderr.isTTY === true && process.env.TERM !== 'dumb';

/** Columns for a line: a line that reaches the last column wraps, and clearing it would leave the wrapped rest. */
const room = (): number => (process.stderr.columns || 80) - 1;

/** A text, cut to the width of the terminal. */
export const inOneLine = (text: string): string => text.slice(0, room());

/** "[======    ] 12/20   left 3s", with a bar of 30 cells; of fewer if the line is short, and none below 5. */
export function statusLine(done: number, steps: number, left: string, columns = room()): string {
  const figures = `${done}/${steps}${left}`;
  const cells = Math.min(30, columns - figures.length - '[] '.length);
  if (cells < 5) return figures;
  return `[${'='.repeat(Math.round((cells * done) / steps)).padEnd(cells)}] ${figures}`;
}

/** "42%   left 3s" */
export function shareLine(done: number, all: number, milliseconds: number): string {
  const left = (milliseconds / done) * (all - done);
  return `${Math.floor((100 * done) / all)}%${done > 0 ? `   left ${formatDuration(left / 1000)}` : ''}`;
}

/** Shows the progress of work that begins now on the status line. */
export function showShare(): (done: number, all: number) => void {
  const begun = performance.now();
  return (done, all) => {
    clearStatus();
    process.stderr.write(inOneLine(shareLine(done, all, performance.now() - begun)));
  };
}

/** Shows the bytes done of a file on the status line, at the rate since the first call; clears the line at the end. */
export function showBytes(): (done: number, total: number) => void {
  let first: { readonly at: number; readonly done: number } | undefined;
  let shownAt = 0;
  return (done, total) => {
    const now = performance.now();
    first ??= { at: now, done };
    const { at, done: before } = first;
    if (done === total) {
      first = undefined;
      clearStatus();
    }
    if (!isLive || done === total || now - Math.max(shownAt, at) < 200) return;
    shownAt = now;
    const rate = ((done - before) / (now - at)) * 1000;
    const left = rate > 0 ? `   left ${formatDuration((total - done) / rate)}` : '';
    clearStatus();
    process.stderr.write(inOneLine(`${formatBytes(done)} of ${formatBytes(total)}   ${formatBytes(rate)}/s${left}`));
  };
}

/** Runs a preparation or a download and, on a terminal, shows its progress on stderr. */
export async function withProgress<T>(
  run: (shown: { onProgress: (done: number, total: number) => void; notice: (text: string) => void }) => Promise<T>,
): Promise<T> {
  const noticeAbove = (text: string) => {
    clearStatus();
    notice(text);
  };
  try {
    return await run({ onProgress: showBytes(), notice: noticeAbove });
  } finally {
    clearStatus();
  }
}

/** Shows events as they happen; among training steps every `logEvery`-th, skipped ones and the last. */
export function showProgress({ steps, lastStep, logEvery }: Pick<RunDescription, 'steps' | 'lastStep' | 'logEvery'>) {
  let resumedFrom: number | undefined;
  let shown = { done: 0, left: '' };
  const line = (text: string): void => {
    clearStatus();
    process.stdout.write(`${text}\n`);
  };
  const status = (text: string): void => {
    if (isLive) process.stderr.write(inOneLine(statusLine(shown.done, steps, text)));
  };
  const figures = (event: RunEvent & { readonly step: number }): string =>
    [`step ${String(event.step).padStart(String(steps).length)}/${steps}`, ...figuresOf(event)].join('   ');
  /** Shows one event, unless a notice or the run's error reports it. @param remaining seconds left, once they are known */
  const event = (event: RunEvent, remaining: number | undefined): void => {
    switch (event.event) {
      case 'train': {
        const left = remaining === undefined ? '' : `   left ${formatDuration(remaining)}`;
        const isShown = event.skipped || event.step % logEvery === 0 || event.step + 1 === lastStep;
        if (isShown) line(`${figures(event)}${event.skipped ? '' : left}`);
        else clearStatus();
        shown = { done: event.step + 1, left };
        status(left);
        break;
      }
      case 'val':
      case 'hellaswag':
        line(styleText('bold', figures(event)));
        break;
      case 'sample':
        line(`${styleText('dim', `--- sample at step ${event.step}`)}\n${event.text}\n${styleText('dim', '---')}`);
        break;
      case 'checkpoint':
        // The first checkpoint in a resumed run's log is the one from which it continues.
        line(`${event.step === resumedFrom ? 'continuing from' : 'saved'} ${event.path}`);
        break;
      case 'done':
        line(
          `${describeDone(event, resumedFrom)}${event.skipped === undefined ? '' : `, ${event.skipped} ${event.skipped === 1 ? 'update' : 'updates'} skipped as spikes`}`,
        );
        break;
      case 'run':
        resumedFrom = event.resumedFrom;
        shown = { done: event.resumedFrom ?? 0, left: '' };
        break;
    }
  };
  /** Counts the micro-batches of a long step on the status line. */
  const microBatch = (done: number, all: number): void => {
    clearStatus();
    status(`   micro-batch ${done}/${all}${shown.left}`);
  };
  return { line, event, microBatch };
}

export function clearStatus(): void {
  if (!isLive) return;
  clearLine(process.stderr, 0);
  cursorTo(process.stderr, 0);
}
