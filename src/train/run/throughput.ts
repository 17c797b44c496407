// Measures a run's speed and estimates when it ends: the median of recent steps, what is due between steps, and the last save.
import { median } from '../plan/measure.ts';
import { type Outlook, saveSeconds, timesDue } from '../plan/outlook.ts';
import type { Run } from './run.ts';

/** Number of steps whose median counts. */
const recent = 20;

/** Milliseconds after which steps take their usual time: before, JavaScript's compiler runs too (70 instead of 40 ms a step). */
const settled = 2000;
/** A run of fewer seconds has its outlook before its steps have settled. */
const shortRun = 60;

/** Work between steps: it is due every `every` steps, and after the last step. */
interface Between {
  readonly every: number;
  /** The last step at which it began. */
  readonly begunAt: number;
  /** Duration of the latest occurrence; 0 before the first. */
  readonly milliseconds: number;
}

export class Throughput {
  #steps = 0;
  #total = 0;
  #isTold = false;
  readonly #milliseconds: number[] = [];
  readonly #between = new Map<string, Between>();
  readonly #tokensPerStep: number;
  readonly #span: Run['span'];
  readonly #checkpointBytes: number;
  /** Seconds of the last save, estimated before the first. */
  saveSeconds: number;

  constructor(tokensPerStep: number, span: Run['span'], checkpointBytes: number) {
    this.#tokensPerStep = tokensPerStep;
    this.#span = span;
    this.#checkpointBytes = checkpointBytes;
    this.saveSeconds = saveSeconds(checkpointBytes);
  }

  get steps(): number {
    return this.#steps;
  }

  /** Milliseconds of a step; undefined until two steps are done: the first one is a warmup. */
  get step(): number | undefined {
    return this.#milliseconds.length === 0 ? undefined : median(this.#milliseconds);
  }

  /** Adds the time of a step and returns its rate. */
  add(milliseconds: number): { tokensPerSecond: number } {
    if (this.#steps++ > 0) this.#milliseconds.push(milliseconds);
    this.#total += milliseconds;
    if (this.#milliseconds.length > recent) this.#milliseconds.shift();
    return { tokensPerSecond: (this.#tokensPerStep * 1000) / milliseconds };
  }

  /** Measures work that is due every `every` steps and begins now, before `step`. */
  async between<R>(
    kind: string,
    every: number,
    step: number,
    work: () => Promise<R>,
    now = performance.now,
  ): Promise<R> {
    const { milliseconds = 0 } = this.#between.get(kind) ?? {};
    this.#between.set(kind, { every, begunAt: step, milliseconds });
    const begun = now.call(performance);
    const result = await work();
    this.#between.set(kind, { every, begunAt: step, milliseconds: now.call(performance) - begun });
    return result;
  }

  /** Estimates the seconds until step `last` is saved; undefined until three steps are done. */
  remaining(last = this.#span.lastStep): number | undefined {
    const { step } = this;
    if (step === undefined || this.#steps < 3) return undefined;
    const done = this.#span.startStep + this.#steps;
    const between = [...this.#between.values()].map(
      ({ every, begunAt, milliseconds }) => timesDue(every, Math.max(done, begunAt + 1), last) * milliseconds,
    );
    return between.reduce((sum, each) => sum + each, (last - done) * step) / 1000 + this.saveSeconds;
  }

  /** The outlook up to the last step of this process, once: after the third step, or later in a long run whose steps have not settled. */
  outlook(epochsOfRun: number): Outlook | undefined {
    const steps = this.#span.lastStep;
    const seconds = this.remaining();
    if (this.#isTold || seconds === undefined || (seconds > shortRun && this.#total < settled)) return undefined;
    this.#isTold = true;
    const tokens = steps * this.#tokensPerStep;
    const epochs = (epochsOfRun * steps) / this.#span.steps;
    return { steps, tokens, epochs, stepSeconds: this.step! / 1000, seconds, checkpointBytes: this.#checkpointBytes };
  }
}
