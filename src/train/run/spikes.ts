// Finds spikes for --skip-spikes: losses or gradient norms far above their values in earlier steps. A step with a spike updates nothing.
import type { StepResult, UpdateLimits } from '../step/staging.ts';
import type { Run } from './run.ts';

/** Number of earlier steps with which a loss or norm is compared; with fewer earlier steps, no step has a spike. */
const window = 128;

/** A run ends after this number of skipped updates in a row, because so many cannot be spikes. */
export const mostSkippedInARow = 16;

export type Measured = Pick<StepResult, 'loss' | 'norm'> & { readonly step: number; readonly skipped?: boolean };

const hasFinite = ({ loss, norm }: Measured): boolean => Number.isFinite(loss) && Number.isFinite(norm);

/** The latest 129 steps with finite loss and norm, from which the limits of later steps are computed. */
export const recentSteps = (steps: readonly Measured[]): Measured[] =>
  steps
    .filter(hasFinite)
    .slice(-(window + 1))
    .map(({ step, loss, norm }) => ({ step, loss, norm }));

/**
 * Creates a spike watch from the steps in a resumed run's log. All ranks use the steps of rank 0's log, so that they skip the same
 * updates.
 */
export async function openSpikeWatch(ranks: Run['ranks'], z: number, logged: readonly Measured[]): Promise<SpikeWatch> {
  const known = { skipped: logged.filter(({ skipped }) => skipped).length, steps: recentSteps(logged) };
  const history = (await ranks?.fromRoot(known)) ?? known;
  return spikeWatch(z, history.steps, history.skipped);
}

export type SpikeWatch = ReturnType<typeof spikeWatch>;

/**
 * Watches the losses and gradient norms of steps for spikes.
 * @param z number of standard deviations above the mean from which a value is a spike
 * @param skipped number of updates that the run has skipped so far
 */
export function spikeWatch(z: number, earlier: readonly Measured[] = [], skipped = 0) {
  /** Steps with finite loss and norm, ascending. */
  const history: Measured[] = [];
  const limit = (values: readonly number[]): number | undefined => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
    return variance === 0 ? undefined : mean + z * Math.sqrt(variance);
  };
  const watch = {
    skipped: 0,
    skippedInARow: 0,
    /** Adds a step. Skipped steps count too, so that after a lasting rise of the loss, higher losses soon stop counting as spikes. */
    add(measured: Measured): void {
      watch.skippedInARow = measured.skipped ? watch.skippedInARow + 1 : 0;
      if (measured.skipped) watch.skipped++;
      if (!hasFinite(measured)) return;
      history.push(measured);
      if (history.length > window + 1) history.shift();
    },
    /**
     * Limits of loss and norm above which step `step` updates nothing: mean + z standard deviations of the 128 steps up to
     * `step` - 2. Step `step` - 1 is left out, because a GPU may still compute it when step `step` is enqueued.
     */
    limitsAt(step: number): UpdateLimits {
      const before = history.filter((measured) => measured.step < step - 1).slice(-window);
      if (before.length < window) return {};
      return { loss: limit(before.map(({ loss }) => loss)), norm: limit(before.map(({ norm }) => norm)) };
    },
  };
  for (const measured of earlier) watch.add(measured);
  watch.skipped = skipped;
  return watch;
}
