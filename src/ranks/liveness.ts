// Detects ranks that are silent, ranks that lag, and a step that no rank finishes.

export const beatMilliseconds = 1000;
/** Before training and between steps, a rank may be busy for long: it checks shards, initializes weights, writes files. */
const idlePatience = 600_000;
/** A step hangs if it takes this many times as long as the longest step before, and as the time after which a rank is silent. */
const hangFactor = 10;

/** The last known state of another rank. */
interface Other {
  heard: number;
  step: number;
  /** When the rank was first seen in its current step. */
  since: number;
}

export class Liveness {
  /** The step of this rank; -1 before the first. */
  step = -1;
  readonly #others: ReadonlyMap<number, Other>;
  readonly #silenceMilliseconds: number;
  #patience = idlePatience;
  #longestStep = 0;
  /** When the last step was done; undefined before the first step, and after work other than a step. */
  #stepDone: number | undefined;
  #lastCheck = performance.now();

  constructor(others: Iterable<number>, silenceSeconds: number) {
    const now = performance.now();
    this.#others = new Map([...others].map((rank) => [rank, { heard: now, step: -1, since: now }]));
    this.#silenceMilliseconds = silenceSeconds * 1000;
  }

  /** Records a message from a rank, and the step that it reports. */
  hear(rank: number, step?: number): void {
    const other = this.#others.get(rank)!;
    other.heard = performance.now();
    if (step === undefined || other.step === step) return;
    other.step = step;
    other.since = other.heard;
  }

  /** Begins a step. From the first step on, a rank that is silent or lags for too long fails the job. */
  begin(step: number): void {
    this.step = step;
    if (this.#patience === idlePatience) for (const other of this.#others.values()) other.since = performance.now();
    this.#patience = this.#silenceMilliseconds;
  }

  /** Ends a step. From then on, until `rest` or `pause`, a step that no rank finishes fails the job. */
  done(milliseconds: number): void {
    this.#longestStep = Math.max(this.#longestStep, milliseconds);
    this.#stepDone = performance.now();
  }

  /** Allows any time until the next step is done. */
  pause(): void {
    this.#stepDone = undefined;
  }

  /** Allows every rank to be busy for long until the next step begins. */
  rest(): void {
    this.#patience = idlePatience;
    this.pause();
  }

  /** Failures of other ranks, and of this rank (`self`) if all hang; must be called every `beatMilliseconds`. */
  failures(self: number): { readonly rank: number; readonly reason: string }[] {
    const now = performance.now();
    const late = now - this.#lastCheck - beatMilliseconds;
    this.#lastCheck = now;
    // A process that was busy has not read the messages that others sent meanwhile.
    if (late > beatMilliseconds) for (const other of this.#others.values()) other.heard = now;
    const furthest = Math.max(this.step, ...[...this.#others.values()].map(({ step }) => step));
    const found = [...this.#others].flatMap(([rank, other]) => {
      const reason = this.#failureOf(other, now, furthest);
      return reason === undefined ? [] : [{ rank, reason }];
    });
    const waited = now - (this.#stepDone ?? now);
    if (waited > hangFactor * Math.max(this.#longestStep, this.#silenceMilliseconds)) {
      const seconds = Math.round(waited / 1000);
      const reason = `has waited ${seconds} s for step ${this.step} to end, as has every other rank: their communication hangs`;
      found.push({ rank: self, reason });
    }
    return found;
  }

  #failureOf({ heard, step, since }: Other, now: number, furthest: number): string | undefined {
    const seconds = Math.round(this.#patience / 1000);
    if (now - heard > this.#patience) {
      return `sent no heartbeat for ${seconds} s, last in ${step < 0 ? 'its preparations' : `step ${step}`}`;
    }
    const isBehind = step < furthest && now - since > this.#patience && now - heard < 3 * beatMilliseconds;
    return isBehind ? `is in step ${step}, and was waited for in step ${furthest} for ${seconds} s` : undefined;
  }
}
