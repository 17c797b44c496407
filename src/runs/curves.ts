// Collects the curves of a run from the events of its log, one event at a time. The live page runs this code in the browser, so
// nothing here needs Node or a DOM.

/** An event parsed from a line of the log, without a check: NaN and infinities are strings, and a later version may have added fields. */
// biome-ignore lint/suspicious/noExplicitAny: a line has the fields of its event, and any version of the program may have written it.
export type Line = Record<string, any> & { event: string };

/** The curves in which runs are compared: training loss, validation loss, gradient norm, learning rate. */
export const seriesNames = ['train', 'val', 'norm', 'lr'] as const;
export type SeriesName = (typeof seriesNames)[number];

interface GrowingPoints {
  readonly steps: number[];
  readonly values: number[];
}

const empty = (): GrowingPoints => ({ steps: [], values: [] });

export class RunCurves {
  readonly train = empty();
  readonly val = empty();
  readonly norm = empty();
  readonly lr = empty();
  readonly tokensPerSecond = empty();
  /** Number of tokens in each step; --total-batch may change the number when a run is resumed. */
  readonly tokens = empty();
  readonly seconds = empty();
  #totalBatch: unknown;

  /** Adds an event. A resume at step s drops training values from step s on, but keeps the validation at s, which preceded the save. */
  take(event: Line): void {
    const { train, val, norm, lr, tokensPerSecond, tokens, seconds } = this;
    if (event.event === 'run') {
      const from = event.resumedFrom ?? -1;
      for (const points of [train, norm, lr, tokensPerSecond, tokens, seconds]) cut(points, from);
      cut(val, from + 1);
      this.#totalBatch = event.configuration?.totalBatch;
    }
    if (event.event === 'val') push(val, event.step, event.loss);
    if (event.event !== 'train') return;
    push(train, event.step, event.loss);
    push(norm, event.step, event.norm);
    push(lr, event.step, event.lr);
    push(tokensPerSecond, event.step, event.tokensPerSecond);
    push(tokens, event.step, this.#totalBatch);
    push(seconds, event.step, event.ms / 1000);
  }
}

/** Inserts a value in ascending order of steps. A second value for a step replaces the first. */
function push({ steps, values }: GrowingPoints, step: unknown, value: unknown): void {
  if (typeof step !== 'number' || !Number.isInteger(step)) return;
  const place = steps.findLastIndex((one) => one < step) + 1;
  const replaced = steps[place] === step ? 1 : 0;
  steps.splice(place, replaced, step);
  values.splice(place, replaced, Number(value));
}

function cut({ steps, values }: GrowingPoints, from: number): void {
  while ((steps.at(-1) ?? Number.NEGATIVE_INFINITY) >= from) {
    steps.pop();
    values.pop();
  }
}

/** Points as pairs of step and value. */
export const pairs = ({ steps, values }: GrowingPoints): [step: number, value: number][] =>
  steps.map((step, index) => [step, values[index]!]);
