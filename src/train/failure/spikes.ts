// --skip-spikes: which losses and norms are out of line with those before them, and so cost a step its update.
import type { StepResult } from '../step/staging.ts';
import type { UpdateLimits } from '../step/trainer.ts';

/** Steps that a value is compared with; before there are as many, nothing is a spike. */
const window = 128;

/** Updates skipped in a row after which something else must be wrong. */
export const mostSkippedInARow = 16;

/** A step's results. */
export type Measured = Pick<StepResult, 'loss' | 'norm'> & { readonly step: number };

const counts = ({ loss, norm }: Measured): boolean => Number.isFinite(loss) && Number.isFinite(norm);

/** Of a run's steps, those that limits can still depend on. */
export const thoseThatCount = (steps: readonly Measured[]): Measured[] =>
  steps
    .filter(counts)
    .slice(-(window + 1))
    .map(({ step, loss, norm }) => ({ step, loss, norm }));

export class SpikeWatch {
  readonly #z: number;
  /** Finite ones, steps rising. */
  #history: Measured[] = [];

  /** @param z standard deviations over the mean from which on a value is a spike */
  constructor(z: number, history: readonly Measured[] = []) {
    this.#z = z;
    for (const measured of history) this.add(measured);
  }

  /** Takes in a step, skipped or not: a level that has shifted for good is no spike for long. */
  add(measured: Measured): void {
    if (!counts(measured)) return;
    this.#history.push(measured);
    if (this.#history.length > window + 1) this.#history.shift();
  }

  /**
   * Over which loss and norm step `step` updates nothing: mean + z standard deviations of the last 128 steps before the one
   * before it, whose results a GPU does not have yet when the step is issued.
   */
  limitsAt(step: number): UpdateLimits {
    const before = this.#history.filter((measured) => measured.step < step - 1).slice(-window);
    if (before.length < window) return {};
    return { loss: this.#limit(before.map(({ loss }) => loss)), norm: this.#limit(before.map(({ norm }) => norm)) };
  }

  #limit(values: readonly number[]): number | undefined {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    return variance === 0 ? undefined : mean + this.#z * Math.sqrt(variance);
  }
}
