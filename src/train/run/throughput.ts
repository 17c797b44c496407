// How fast the run goes and when it will be done, from a moving average of the last steps.

/** Weight of the newest step in the average: about the last twenty steps count. */
const newest = 0.1;

export class Throughput {
  #milliseconds: number | undefined;
  #steps = 0;
  readonly #tokensPerStep: number;

  constructor(tokensPerStep: number) {
    this.#tokensPerStep = tokensPerStep;
  }

  /** Takes in the time of one more step and gives its own rate. The first step warms up and is left out of the average. */
  add(milliseconds: number): { tokensPerSecond: number } {
    this.#steps++;
    if (this.#steps > 1) {
      this.#milliseconds =
        this.#milliseconds === undefined ? milliseconds : this.#milliseconds * (1 - newest) + milliseconds * newest;
    }
    return { tokensPerSecond: (this.#tokensPerStep * 1000) / milliseconds };
  }

  /** Seconds that `steps` more steps will take, or undefined before three steps are done. */
  remaining(steps: number): number | undefined {
    if (this.#milliseconds === undefined || this.#steps < 3) return undefined;
    return (steps * this.#milliseconds) / 1000;
  }
}
