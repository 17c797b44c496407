// What a person sees of a run: one line per event on stdout and, on a terminal, a status line with bar and time left on
// stderr. The run log has the same facts as JSON (src/runs).
import { clearLine, cursorTo } from 'node:readline';
import { styleText } from 'node:util';
import type { RunEvent } from '../index.ts';

/** "1h02m", "3m07s", "12s" */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (hours > 0) return `${hours}h${String(minutes).padStart(2, '0')}m`;
  if (minutes > 0) return `${minutes}m${String(rest).padStart(2, '0')}s`;
  return `${rest}s`;
}

/** "1.23 GiB", "45.6 MiB" */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let [value, power] = [bytes, 0];
  // Three digits: what rounds to 1000 is 0.977 of the next.
  for (; value >= 999.5 && power < units.length - 1; power++) value /= 1024;
  return `${power === 0 ? value : value.toPrecision(3)} ${units[power]}`;
}

/** Columns that a line may take: one that reaches the last wraps, and what wraps is not taken away with its line. */
const room = (): number => (process.stderr.columns || 80) - 1;

/** What of a text fits into a line of the terminal. */
export const inOneLine = (text: string): string => text.slice(0, room());

/** "[======    ] 12/20   left 3s", with a bar as long as there is room for, 30 cells at most, and none under 5. */
export function statusLine(done: number, steps: number, left: string, columns = room()): string {
  const figures = `${done}/${steps}${left}`;
  const cells = Math.min(30, columns - figures.length - '[] '.length);
  if (cells < 5) return figures;
  return `[${'='.repeat(Math.round((cells * done) / steps)).padEnd(cells)}] ${figures}`;
}

const formatLoss = (loss: number | string): string => (typeof loss === 'number' ? loss.toFixed(4) : loss);

/** Shows events as they come. `steps` is how many the run will have done at its end. */
export class Progress {
  readonly #steps: number;
  readonly #width: number;
  #resumedFrom: number | undefined;
  readonly #live = process.stderr.isTTY === true && process.env.TERM !== 'dumb';

  constructor(steps: number) {
    this.#steps = steps;
    this.#width = String(steps).length;
  }

  /** A line above the status line. */
  line(text: string): void {
    this.#clear();
    process.stdout.write(`${text}\n`);
  }

  /** Shows one event; `remaining` is the time left in seconds, once it is known. */
  event(event: RunEvent, remaining: number | undefined): void {
    switch (event.event) {
      case 'train': {
        const step = `step ${String(event.step).padStart(this.#width)}/${this.#steps}`;
        const left = remaining === undefined ? '' : `   left ${formatDuration(remaining)}`;
        const rate = `${Math.round(Number(event.ms))} ms   ${Math.round(Number(event.tokensPerSecond))} tokens/s`;
        const norm = typeof event.norm === 'number' ? event.norm.toFixed(2) : event.norm;
        this.line(
          `${step}   loss ${formatLoss(event.loss)}   norm ${norm}   lr ${Number(event.lr).toExponential(2)}   ${rate}${event.skipped ? '   skipped' : left}`,
        );
        this.#status(event.step + 1, left);
        break;
      }
      case 'val':
        this.line(
          styleText(
            'bold',
            `step ${String(event.step).padStart(this.#width)}/${this.#steps}   val loss ${formatLoss(event.loss)}`,
          ),
        );
        break;
      case 'hellaswag': {
        const step = `step ${String(event.step).padStart(this.#width)}/${this.#steps}`;
        const [acc, accNorm] = [Number(event.acc).toFixed(4), Number(event.accNorm).toFixed(4)];
        this.line(styleText('bold', `${step}   hellaswag acc ${acc}   acc_norm ${accNorm}`));
        break;
      }
      case 'sample':
        this.line(`${styleText('dim', `--- sample at step ${event.step}`)}\n${event.text}\n${styleText('dim', '---')}`);
        break;
      case 'checkpoint':
        // The first line of a resumed run's log names where it comes from.
        this.line(`${event.step === this.#resumedFrom ? 'going on from' : 'saved'} ${event.path}`);
        break;
      // A notice, or the error that ends the run, reports it.
      case 'notSaved':
      case 'nonFinite':
        break;
      case 'done':
        this.line(
          `done: ${event.steps} ${event.steps === 1 ? 'step' : 'steps'} in ${formatDuration(Number(event.seconds))}${event.skipped === undefined ? '' : `, ${event.skipped} ${event.skipped === 1 ? 'update' : 'updates'} skipped as spikes`}`,
        );
        break;
      case 'run':
        this.#resumedFrom = event.resumedFrom;
        break;
    }
  }

  /** Takes the status line away. */
  close(): void {
    this.#clear();
  }

  #status(done: number, left: string): void {
    if (!this.#live) return;
    process.stderr.write(inOneLine(statusLine(done, this.#steps, left)));
  }

  #clear(): void {
    if (!this.#live) return;
    clearLine(process.stderr, 0);
    cursorTo(process.stderr, 0);
  }
}
