// Collects a run's curves, samples, last log lines and state from its events. make-figure.ts passes a whole log, the live page
// (page/live.ts) line by line. The page's script contains this file: it must not need Node or a DOM.
import { orElse } from '../base/errors.ts';
import { median } from '../base/quantile.ts';
import { type Line, RunCurves } from '../runs/curves.ts';
import type { RunRecord } from '../runs/reader.ts';
import { formatCount, formatDuration } from './format-text.ts';

/** Most log lines and samples that are kept for the page. */
const keptLines = 300;
const keptSamples = 100;
/** The speed is the median time of this many last steps: the first steps after a start are slower. */
const recentSteps = 20;

export class LoggedRun {
  series = new RunCurves();
  samples: { readonly step: number; readonly text: string }[] = [];
  lines: string[] = [];
  /** Milliseconds of each of the last steps. */
  times: number[] = [];
  /** The last event of each kind, by its name. */
  last: Record<string, Line> = {};
  latest: Line | undefined;

  constructor(events: RunRecord['events'] = []) {
    for (const event of events) this.take(event);
  }

  /** Adds log lines. A line that is not an event is ignored. */
  add(text: string): void {
    for (const line of text.split('\n')) {
      const event = orElse(undefined, () => JSON.parse(line));
      if (typeof event?.event === 'string') this.take(event);
    }
  }

  take(event: Line): void {
    this.series.take(event);
    if (event.event === 'run') {
      this.samples = this.samples.filter(({ step }) => step <= (event.resumedFrom ?? -1));
      // Forget the failure of an earlier start, because the run has started again.
      delete this.last.nonFinite;
    }
    if (event.event === 'train') {
      // Forget the step times of earlier starts, which may have run on another machine.
      const isFirst = event.step === (this.last.run?.resumedFrom ?? 0);
      this.times = [...(isFirst ? [] : this.times), Number(event.ms)].slice(-recentSteps);
    }
    if (event.event === 'sample') {
      this.samples = [...this.samples, { step: event.step, text: String(event.text) }].slice(-keptSamples);
    }
    this.last[event.event] = event;
    this.latest = event;
    this.lines.push(...describe(event, this.last.run));
    if (this.lines.length > 2 * keptLines) this.lines = this.lines.slice(-keptLines);
  }

  get isDone(): boolean {
    return this.latest?.event === 'done';
  }

  /** Number of steps done. Steps whose update was skipped count. */
  get step(): number {
    return (this.series.train.steps.at(-1) ?? -1) + 1;
  }

  /** Median milliseconds of the last steps; undefined before the first step. */
  get milliseconds(): number | undefined {
    return this.times.length === 0 ? undefined : median(this.times);
  }

  /** Tokens per second, by the tokens of the last step: the options of a later start need not be the options of this step. */
  get tokensPerSecond(): number | undefined {
    const [tokens, { milliseconds }] = [this.series.tokens.values.at(-1), this];
    return tokens && milliseconds ? (1000 * tokens) / milliseconds : undefined;
  }
}

const fixed = (value: unknown, digits: number): string => Number(value).toFixed(digits);

/** The run's end in words: "done: 10 steps in 2s"; after a resume at step `from` "done: 10 steps in 2s, 30 in all". */
export function describeDone({ steps, seconds }: Line, from = 0): string {
  const count = steps - from;
  const all = from > 0 ? `, ${steps} in all` : '';
  return `done: ${count} ${count === 1 ? 'step' : 'steps'} in ${formatDuration(Number(seconds))}${all}`;
}

/** The numbers of a training step, a validation or a HellaSwag evaluation, as texts; [] for other events. */
export function figuresOf(event: Line): string[] {
  switch (event.event) {
    case 'train':
      return [
        ...[`loss ${fixed(event.loss, 4)}`, `norm ${fixed(event.norm, 2)}`, `lr ${Number(event.lr).toExponential(2)}`],
        ...[`${fixed(event.ms, 0)} ms`, `${fixed(event.tokensPerSecond, 0)} tokens/s`],
        ...(event.saturated ? [`${event.saturated} saturated`] : []),
        ...(event.skipped ? ['skipped'] : []),
      ];
    case 'val':
      return [`val loss ${fixed(event.loss, 4)}`];
    case 'hellaswag':
      return [`hellaswag acc ${fixed(event.acc, 4)}`, `acc_norm ${fixed(event.accNorm, 4)}`];
    default:
      return [];
  }
}

/** An event as a readable log line; [] if the event has no text. @param start the last `run` event */
function describe(event: Line, start: Line | undefined): string[] {
  const [at, from] = [`step ${event.step}`, event.resumedFrom];
  const figures = figuresOf(event);
  if (figures.length > 0) return [[at, ...figures].join('   ')];
  switch (event.event) {
    case 'run':
      return [`${from === undefined ? 'started' : `resumed from step ${from}`} ${event.time}`];
    case 'checkpoint':
      return [`saved ${event.path}`];
    case 'notSaved':
      return [`${at}   not saved: ${event.reason}`];
    case 'nonFinite':
      return [`${at}   not finite: ${event.finding}`];
    case 'done':
      return [describeDone(event, start?.resumedFrom)];
    default:
      return [];
  }
}

/** The state of a run on the live page. `quiet`: seconds since the log was last written; null: never. */
export function stateOf(
  run: LoggedRun,
  { connection, quiet, steps }: { connection: 'open' | 'closed' | 'lost'; quiet: number | null; steps?: number },
) {
  const done = steps === undefined ? '' : ` after ${formatCount(run.step)} of ${formatCount(steps)} steps`;
  if (run.isDone) return { state: 'finished', text: `finished${done}` };
  if (run.last.nonFinite) return { state: 'closed', text: `stopped${done}: ${run.last.nonFinite.finding}` };
  if (connection === 'closed') return { state: 'closed', text: `stopped${done}; continues here when the run does` };
  if (connection === 'lost') return { state: 'lost', text: 'no connection: the run may have ended; trying again' };
  if (!run.last.run) return { state: 'waiting', text: 'waiting for the run' };
  // Seconds without a log line after which the run seems stuck: a validation or a save takes longer than a step, but less than `long`.
  const long = Math.max(60, (20 * (run.milliseconds ?? 0)) / 1000);
  if (quiet !== null && quiet > long) {
    return { state: 'quiet', text: `stopped${done}, or stuck: nothing new for ${formatDuration(quiet)}` };
  }
  return { state: 'training', text: `training${done}` };
}

/**
 * The state of a run as far as its log tells: a killed run looks like one that still runs. `gap`: the missing steps of the log, in words.
 * @param saved number of updates before the newest checkpoint; more than the steps in the log if the log is damaged
 */
export function endOf(
  run: LoggedRun,
  { steps, saveEvery }: Pick<RunRecord['configuration'], 'steps' | 'saveEvery'>,
  saved = 0,
) {
  const { latest } = run;
  const reached = Math.max(run.step, saved);
  const done = `${formatCount(reached)} of ${formatCount(steps)} steps`;
  const lost = reached - run.series.train.steps.length;
  const gap = lost > 0 ? `its log lacks ${formatCount(lost)} of the ${formatCount(reached)} steps done` : undefined;
  const end = <S extends string>(state: S, text: string) => ({ state, text: gap ? `${text}; ${gap}` : text, gap });
  if (run.isDone) return end('finished', `finished after ${done}`);
  if (latest?.event === 'nonFinite') {
    return end(
      'notFinite',
      `not finite at step ${formatCount(latest.step)} of ${formatCount(steps)}: ${latest.finding}`,
    );
  }
  // If the last event is a checkpoint that was not due at its step, the run was stopped: a stopped run saves a checkpoint.
  const isLast = latest?.event === 'checkpoint' && latest.step === reached;
  // If `saveEvery` is a time, a checkpoint that was due has `heldMs`, the milliseconds for which the save paused training.
  const isDue =
    typeof saveEvery === 'number' ? saveEvery > 0 && reached % saveEvery === 0 : isLast && latest.heldMs !== undefined;
  if (isLast && !isDue) return end('stopped', `stopped after ${done}`);
  return end('unfinished', `not finished, ${done} done: still running, stopped or killed`);
}

export const endOfRun = ({ events, configuration, saved }: Pick<RunRecord, 'events' | 'configuration' | 'saved'>) =>
  endOf(new LoggedRun(events), configuration, saved);
