// Measures a run's speed and estimates when it ends, from a moving average over steps.

/** Weight of the newest step in the average; weights of older steps decay, so that about twenty steps matter. */
const newest = 0.1;

export class Throughput {
  #milliseconds: number | undefined;
  #steps = 0;
  readonly #tokensPerStep: number;

  constructor(tokensPerStep: number) {
    this.#tokensPerStep = tokensPerStep;
  }

  /** Adds the time of a step and returns its rate. The first step, a warmup, is not averaged. */
  add(milliseconds: number): { tokensPerSecond: number } {
    this.#steps++;
    if (this.#steps > 1) {
      this.#milliseconds =
        this.#milliseconds === undefined ? milliseconds : this.#milliseconds * (1 - newest) + milliseconds * newest;
    }
    return { tokensPerSecond: (this.#tokensPerStep * 1000) / milliseconds };
  }

  /** Estimates the seconds of `steps` more steps; undefined until three steps are done. */
  remaining(steps: number): number | undefined {
    if (this.#milliseconds === undefined || this.#steps < 3) return undefined;
    return (steps * this.#milliseconds) / 1000;
  }
}
