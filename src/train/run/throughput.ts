// Measures a run's speed and estimates when it ends, from the median of recent steps, work between steps, and saves.
import { median } from '../../base/quantile.ts';
import { type Outlook, saveSeconds, timesDue } from '../plan/outlook.ts';
import type { SessionHooks } from './hooks.ts';
import type { Run } from './run.ts';

/** Number of recent steps whose median is the time of a step. */
const recent = 20;

/** Milliseconds of steps until the JavaScript compiler has optimized the code; until then a step took 70 ms instead of 40. */
const settled = 2000;
/** A run of fewer seconds than this gets its outlook after the third step, even if the code has not been optimized yet. */
const shortRun = 60;

/** Work between steps, such as a validation, due every `every` steps and after the last step. */
interface Between {
  readonly every: number;
  /** The step that follows the latest occurrence of the work. */
  readonly begunAt: number;
  /** Duration of the latest finished occurrence; 0 until the first is finished. */
  readonly milliseconds: number;
}

export type Throughput = ReturnType<typeof throughputOf>;

/** @param saves `every`: steps between saves. `slowdown`: seconds of training lost in each second in which a save is written. */
export function throughputOf(
  tokensPerStep: number,
  span: Run['span'],
  checkpointBytes: number,
  saves = { every: 0, slowdown: 0 },
) {
  let total = 0;
  let isTold = false;
  const latest: number[] = [];
  const occurrences = new Map<string, Between>();
  const throughput = {
    steps: 0,
    /** Seconds that the last save took; before the first save, an estimate. */
    saveSeconds: saveSeconds(checkpointBytes),
    /** Median milliseconds of a step; undefined until two steps are done, because the first is a warmup. */
    get step(): number | undefined {
      return latest.length === 0 ? undefined : median(latest);
    },
    /** Adds the time of a step and returns its rate. */
    add(milliseconds: number): { tokensPerSecond: number } {
      if (throughput.steps++ > 0) latest.push(milliseconds);
      total += milliseconds;
      if (latest.length > recent) latest.shift();
      return { tokensPerSecond: (tokensPerStep * 1000) / milliseconds };
    },
    /** Runs and times `work`, which is due every `every` steps; `step` is the step that follows. */
    async between<R>(
      kind: string,
      every: number,
      step: number,
      work: () => Promise<R>,
      now = performance.now,
    ): Promise<R> {
      const { milliseconds = 0 } = occurrences.get(kind) ?? {};
      occurrences.set(kind, { every, begunAt: step, milliseconds });
      const begun = now.call(performance);
      const result = await work();
      occurrences.set(kind, { every, begunAt: step, milliseconds: now.call(performance) - begun });
      return result;
    },
    /** Estimates the seconds until the last step is saved; undefined until three steps are done. */
    remaining(): number | undefined {
      const { step, steps } = throughput;
      const last = span.lastStep;
      if (step === undefined || steps < 3) return undefined;
      const done = span.startStep + steps;
      const between = [...occurrences.values()].map(
        ({ every, begunAt, milliseconds }) => timesDue(every, Math.max(done, begunAt + 1), last) * milliseconds,
      );
      const written = 1 + saves.slowdown * Math.max(0, timesDue(saves.every, done, last) - 1);
      return between.reduce((sum, each) => sum + each, (last - done) * step) / 1000 + written * throughput.saveSeconds;
    },
    /** Returns this process's outlook once: after the third step; in a long run, also after `settled` ms of steps. Else undefined. */
    outlook(epochsOfRun: number): Outlook | undefined {
      const steps = span.lastStep - span.startStep;
      const seconds = throughput.remaining();
      if (isTold || seconds === undefined || (seconds > shortRun && total < settled)) return undefined;
      isTold = true;
      const [from, tokens, epochs] = [span.startStep, steps * tokensPerStep, (epochsOfRun * steps) / span.steps];
      return { from, steps, tokens, epochs, stepSeconds: throughput.step! / 1000, seconds, checkpointBytes };
    },
  };
  return throughput;
}

/** A step is long from this number of milliseconds, and short below. */
const longStep = 5000;

/**
 * Returns a callback for a step that begins now; undefined if the step is short or a single micro-batch. The callback reports
 * finished micro-batches, and returns true to abandon the step once `signal` is aborted; with ranks never, as ranks stop together.
 */
export function watchStep(
  { ranks, options: { accumulation } }: Pick<Run, 'ranks' | 'options'>,
  { onMicroBatch, signal }: SessionHooks,
  throughput: Throughput,
): ((done: number) => boolean) | undefined {
  if (accumulation === 1 || (throughput.step ?? longStep) < longStep) return undefined;
  const begunAt = performance.now();
  return (done) => {
    const expected = ((performance.now() - begunAt) * accumulation) / done;
    if ((throughput.step ?? expected) < longStep) return false;
    onMicroBatch?.(done, accumulation);
    return !ranks && signal.aborted;
  };
}
