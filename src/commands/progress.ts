// Shows a run in the terminal: a line per event on stdout and, if stderr is a terminal, a status line there with a progress bar and
// the time left. The run log records the same events as JSON (src/runs).
import { clearLine, cursorTo } from 'node:readline';
import { styleText } from 'node:util';
import type { RunEvent } from '../index.ts';
import { describeDone, figuresOf, formatBytes, formatDuration, type RunDescription } from '../program.ts';
import { notice } from './output.ts';

/** Whether stderr is a terminal whose current line can be overwritten, so that a status line makes sense. */
export const isLive = process.stderr.isTTY === true && process.env.TERM !== 'dumb';

/** Columns for a status line: one fewer than the terminal has. A full line may wrap into two, of which clearing removes only one. */
const room = (): number => (process.stderr.columns || 80) - 1;

/** Cuts a text to one line of the terminal. */
export const inOneLine = (text: string): string => text.slice(0, room());

/** "[======    ] 12/20   left 3s". The bar has 30 cells, fewer in a narrow terminal, and is left out if fewer than 5 fit. */
export function statusLine(done: number, steps: number, left: string, columns = room()): string {
  const figures = `${done}/${steps}${left}`;
  const cells = Math.min(30, columns - figures.length - '[] '.length);
  if (cells < 5) return figures;
  return `[${'='.repeat(Math.round((cells * done) / steps)).padEnd(cells)}] ${figures}`;
}

/** Progress in percent, and the time left by the mean rate so far: "42%   left 3s". */
export function shareLine(done: number, all: number, milliseconds: number): string {
  const left = (milliseconds / done) * (all - done);
  return `${Math.floor((100 * done) / all)}%${done > 0 ? `   left ${formatDuration(left / 1000)}` : ''}`;
}

/** Starts a progress display on the status line. @returns a function that shows that `done` of `all` units are done */
export function showShare(): (done: number, all: number) => void {
  const begun = performance.now();
  return (done, all) => {
    clearStatus();
    process.stderr.write(inOneLine(shareLine(done, all, performance.now() - begun)));
  };
}

/** Starts a display of bytes, rate and time left on the status line, at most every 200 ms. A call with done = total clears the line. */
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

/** Runs a preparation or a download. On a terminal its progress is shown on stderr, and notices are printed above it. */
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

/** Prints a run's events; of the training steps only every `logEvery`-th, the last, and any whose update was skipped. */
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
  /** Prints one event, unless a notice or the run's error already reports it. @param remaining seconds to the run's end, if known */
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
        // The first checkpoint event of a resumed run names the checkpoint from which the run continues; it was saved earlier.
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
  /** Shows on the status line how many micro-batches of the current step are done. */
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
