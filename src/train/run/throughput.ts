// Measures a run's speed and estimates when it ends: the median of recent steps, and what is due between steps.
import { median } from '../plan/measure.ts';
import { timesDue } from '../plan/outlook.ts';

/** Number of steps whose median counts. */
const recent = 20;

/** Work between steps: it is due every so many steps, and after the last step. */
interface Between {
  readonly every: number;
  /** The last step at which it began. */
  readonly begunAt: number;
  /** Duration of the latest occurrence; 0 before the first. */
  readonly milliseconds: number;
}

export class Throughput {
  #steps = 0;
  readonly #milliseconds: number[] = [];
  readonly #between = new Map<string, Between>();
  readonly #tokensPerStep: number;

  constructor(tokensPerStep: number) {
    this.#tokensPerStep = tokensPerStep;
  }

  /** Number of steps that were added. */
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

  /** Estimates the seconds from `done` steps to `last`, and `end` seconds after it; undefined until three steps are done. */
  remaining(done: number, last: number, end: number): number | undefined {
    const { step } = this;
    if (step === undefined || this.#steps < 3) return undefined;
    const between = [...this.#between.values()].map(
      ({ every, begunAt, milliseconds }) => timesDue(every, Math.max(done, begunAt + 1), last) * milliseconds,
    );
    return between.reduce((sum, each) => sum + each, (last - done) * step) / 1000 + end;
  }
}
