// Computes the learning rate of a step: a linear warmup, then a schedule: constant, linear, cosine, wsd (as in llm.c) or trapezoid.
import { checkValue, real } from '../../base/checks/given.ts';
import { type OptionName, optionRows, type ResolvedOptions } from '../../options/table.ts';

export interface Schedule {
  readonly schedule: ResolvedOptions['schedule'];
  /** The peak, reached after the warmup. */
  readonly learningRate: number;
  readonly warmup: number;
  /** Steps of the whole run, including the warmup. */
  readonly steps: number;
  /** The last step's learning rate as a fraction of the peak. */
  readonly finalLearningRateFraction: number;
  /** Fraction of `steps` at the end of the run, in which the schedules wsd ("warmup, stable, decay") and trapezoid lower the rate. */
  readonly decayFraction: number;
}

/**
 * The learning rate of step `step`, counted from 0. In step s of the warmup the rate is the peak times (s + 1) / warmup.
 * @throws UsageError for a step after `steps`, or values that give no valid rate
 * @example
 * const peak = { learningRate: 6e-4, warmup: 10, steps: 100 };
 * const rate = learningRateAt({ ...peak, schedule: 'wsd', finalLearningRateFraction: 0, decayFraction: 0.2 }, 0); // 6e-5
 */
export function learningRateAt(schedule: Schedule, step: number): number {
  checkValue('schedule', optionRows.schedule.type, schedule?.schedule);
  // Check only values that are set, because a run of an earlier version lacks some.
  for (const [name, value] of Object.entries(schedule) as [OptionName, unknown][])
    if (optionRows[name]?.without === 'schedule' && value !== undefined) checkValue(name, optionRows[name].type, value);
  checkValue('step', real(0, schedule.steps), step);
  const rate = rateAt(schedule, step);
  checkValue(`the learning rate of step ${step}`, real(0), rate);
  return rate;
}

function rateAt(
  { schedule, learningRate, warmup, steps, finalLearningRateFraction: final, decayFraction }: Schedule,
  step: number,
): number {
  if (step < warmup) return (learningRate * (step + 1)) / warmup;
  const progress = (step - warmup) / Math.max(1, steps - warmup);
  switch (schedule) {
    case 'constant':
      return learningRate;
    case 'linear':
      return learningRate * (1 - (1 - final) * progress);
    case 'cosine':
      return learningRate * (final + (1 - final) * 0.5 * (1 + Math.cos(Math.PI * progress)));
    case 'wsd':
    case 'trapezoid': {
      const decayFrom = (1 - decayFraction) * steps;
      if (step < decayFrom) return learningRate;
      const decayed = (step - decayFrom) / (steps - decayFrom);
      return learningRate * (final + (1 - final) * (1 - (schedule === 'wsd' ? Math.sqrt(decayed) : decayed)));
    }
  }
}
