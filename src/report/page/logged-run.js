// @ts-check
// What a run's log has told so far: its curves, samples, last lines, and in what state it is. Knows no DOM; what of it is shown
// is in figures.js and tiles.js, where the lines come from in live.js and ../run-figures.ts.

import { duration, formatStep } from './numbers.js';

/** @typedef {import('../report-data.ts').PlottedSeries} PlottedSeries */
/** @typedef {{ steps: number[], values: number[] }} Growing */
/** @typedef {import('../../live/about.ts').About} About */
/** An event as its line has it: numbers that JSON lacks are words. @typedef {Record<string, any> & { event: string }} Line */
/** @typedef {{ step: number, text: string }} Sample */

/** As many as somebody may want to look back at. */
const keptLines = 300;
const keptSamples = 100;
/** What is said of the speed goes by the last steps; the first of a start warms up. */
const recentSteps = 20;

export class LoggedRun {
  /** @type {Record<PlottedSeries, Growing>} */
  series = none();
  /** @type {Sample[]} */
  samples = [];
  /** The last lines, for reading. @type {string[]} */
  lines = [];
  /** Milliseconds of the last steps. @type {number[]} */
  times = [];
  /** The last line of each kind. @type {Record<string, Line>} */
  last = {};
  /** The last line of all. @type {Line | undefined} */
  latest;

  /** Forgets everything: another log follows. */
  clear() {
    Object.assign(this, { series: none(), samples: [], lines: [], times: [], last: {}, latest: undefined });
  }

  /** @param {string} text lines of the log; what is no event is passed over */
  add(text) {
    for (const line of text.split('\n')) {
      const event = parse(line);
      if (event) this.take(event);
    }
  }

  /** @param {Line} event */
  take(event) {
    const { step } = event;
    if (event.event === 'run') this.#start(event.resumedFrom);
    if (event.event === 'val') push(this.series.val, step, event.loss);
    if (event.event === 'train') {
      push(this.series.train, step, event.loss);
      push(this.series.norm, step, event.norm);
      push(this.series.lr, step, event.lr);
      push(this.series.tokensPerSecond, step, event.tokensPerSecond);
      this.times = [...this.times, Number(event.ms)].slice(-recentSteps);
    }
    if (event.event === 'sample')
      this.samples = [...this.samples, { step, text: String(event.text) }].slice(-keptSamples);
    this.last[event.event] = event;
    this.latest = event;
    this.lines.push(...describe(event));
    if (this.lines.length > 2 * keptLines) this.lines = this.lines.slice(-keptLines);
  }

  /** As src/runs/reader.ts does it: a start from a step takes back what was trained from there on. @param {number} [from] */
  #start(from) {
    const { val, ...others } = this.series;
    for (const one of Object.values(others)) cut(one, from ?? 0);
    cut(val, from === undefined ? 0 : from + 1);
    this.samples = this.samples.filter(({ step }) => from !== undefined && step <= from);
    this.times = [];
    // What stopped the run before is no longer its state.
    delete this.last.nonFinite;
  }

  get isDone() {
    return this.latest?.event === 'done';
  }

  /** Updates done. */
  get step() {
    return (this.series.train.steps.at(-1) ?? -1) + 1;
  }

  /** Milliseconds of a step: the middle one of the last. */
  get milliseconds() {
    return [...this.times].sort((a, b) => a - b)[this.times.length >> 1];
  }
}

/** @returns {Record<PlottedSeries, Growing>} */
const none = () => ({
  train: { steps: [], values: [] },
  val: { steps: [], values: [] },
  norm: { steps: [], values: [] },
  lr: { steps: [], values: [] },
  tokensPerSecond: { steps: [], values: [] },
});

/** @param {string} line @returns {Line | undefined} */
function parse(line) {
  try {
    const event = JSON.parse(line);
    return typeof event?.event === 'string' ? event : undefined;
  } catch {
    return undefined;
  }
}

/** Steps rise; what comes again takes the place of what was. @param {Growing} points @param {number} step @param {unknown} value */
function push(points, step, value) {
  if (!Number.isInteger(step)) return;
  cut(points, step);
  points.steps.push(step);
  points.values.push(Number(value));
}

/** @param {Growing} points @param {number} from */
function cut({ steps, values }, from) {
  while ((steps.at(-1) ?? -1) >= from) {
    steps.pop();
    values.pop();
  }
}

/** @param {unknown} value @param {number} digits */
const fixed = (value, digits) => Number(value).toFixed(digits);

/** As the terminal shows it. @param {Line} event @returns {string[]} */
function describe(event) {
  const at = `step ${event.step}`;
  switch (event.event) {
    case 'run':
      return [
        `${event.resumedFrom === undefined ? 'started' : `resumed from step ${event.resumedFrom}`} ${event.time}`,
      ];
    case 'train': {
      const rate = `${fixed(event.ms, 0)} ms  ${fixed(event.tokensPerSecond, 0)} tokens/s`;
      const figures = `loss ${fixed(event.loss, 4)}  norm ${fixed(event.norm, 2)}  lr ${Number(event.lr).toExponential(2)}`;
      return [`${at}  ${figures}  ${rate}${event.skipped ? '  skipped' : ''}`];
    }
    case 'val':
      return [`${at}  val loss ${fixed(event.loss, 4)}`];
    case 'hellaswag':
      return [`${at}  hellaswag acc ${fixed(event.acc, 4)}  acc_norm ${fixed(event.accNorm, 4)}`];
    case 'checkpoint':
      return [`saved ${event.path}`];
    case 'notSaved':
      return [`${at}  not saved: ${event.reason}`];
    case 'nonFinite':
      return [`${at}  not finite: ${event.finding}`];
    case 'done':
      return [`done: ${event.steps} steps in ${fixed(event.seconds, 0)} s`];
    default:
      return [];
  }
}

/**
 * In what state the run is, as far as can be seen from here.
 * @param {LoggedRun} run
 * @param {{ connection: 'open' | 'closed' | 'lost', quiet: number | null, steps: number | undefined }} seen seconds since the log was written
 * @returns {{ state: 'waiting' | 'training' | 'quiet' | 'finished' | 'closed' | 'lost', text: string }}
 */
export function stateOf(run, { connection, quiet, steps }) {
  const done = steps === undefined ? '' : ` after ${formatStep(run.step)} of ${formatStep(steps)} steps`;
  if (run.isDone) return { state: 'finished', text: `finished${done}` };
  if (run.last.nonFinite) return { state: 'closed', text: `stopped${done}: ${run.last.nonFinite.finding}` };
  if (connection === 'closed') return { state: 'closed', text: `stopped${done}; goes on here when the run does` };
  if (connection === 'lost') return { state: 'lost', text: 'no connection: the run may have ended; trying again' };
  if (!run.last.run) return { state: 'waiting', text: 'waiting for the run' };
  // A validation or a save takes longer than a step, but not as long as this.
  const long = Math.max(60, (20 * (run.milliseconds ?? 0)) / 1000);
  if (quiet !== null && quiet > long)
    return { state: 'quiet', text: `stopped${done}, or stuck: nothing new for ${duration(quiet)}` };
  return { state: 'training', text: `training${done}` };
}

/**
 * How a run ended, as far as its log alone tells: that of a run that was killed is the log of one that goes on.
 * @param {LoggedRun} run
 * @param {{ steps: number, saveEvery: number }} configuration
 * @returns {{ state: 'finished' | 'notFinite' | 'stopped' | 'unfinished', text: string }}
 */
export function endOf(run, { steps, saveEvery }) {
  const { latest } = run;
  const done = `${formatStep(run.step)} of ${formatStep(steps)} steps`;
  if (run.isDone) return { state: 'finished', text: `finished after ${done}` };
  if (latest?.event === 'nonFinite') {
    const step = `step ${formatStep(latest.step)} of ${formatStep(steps)}`;
    return { state: 'notFinite', text: `not finite at ${step}: ${latest.finding}` };
  }
  // A save that was not due is that of a run that was told to stop.
  const isLast = latest?.event === 'checkpoint' && latest.step === run.step;
  const isDue = saveEvery > 0 && run.step % saveEvery === 0;
  if (isLast && !isDue) return { state: 'stopped', text: `stopped after ${done}` };
  return { state: 'unfinished', text: `not finished, ${done} done: still running, stopped or killed` };
}
