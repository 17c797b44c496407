// The horizontal axis of a plot of runs: steps, tokens or seconds of training. Over tokens and seconds, runs with different batches,
// models or machines can be compared.
import { gpt2Error } from '../base/errors.ts';
import type { Baseline } from './compare/compare.ts';
import type { Reference } from './compare/reference.ts';
import { LoggedRun } from './logged-run.ts';
import type { Measured } from './measured.ts';

/** A curve's data for a plot: a run, which has `events`, or a reference (a recorded run of another program), which has `source`. */
export type Plotted = Baseline & Measured & Partial<Pick<Reference, 'source'>>;

export const overNames = ['steps', 'tokens', 'seconds'] as const;
/** The quantity of a plot's horizontal axis. */
export type Over = (typeof overNames)[number];

const units: Readonly<Record<Over, Readonly<Record<string, number>>>> = {
  steps: {},
  tokens: { 'billion tokens': 1e9, 'million tokens': 1e6, 'thousand tokens': 1e3, tokens: 1 },
  seconds: { 'hours of training': 3600, 'minutes of training': 60, 'seconds of training': 1 },
};

/** The axis's unit: the largest of which `last` is at least five, else the smallest. @returns name (undefined for steps) and size */
export function unitOf(over: Over, last: number): readonly [unit: string | undefined, size: number] {
  const all = Object.entries(units[over]);
  return all.find(([, size]) => last >= 5 * size) ?? all.at(-1) ?? [undefined, 1];
}

/**
 * Makes a function from a step to its position on the axis: the steps, tokens or seconds before the step. A step's losses are drawn at this
 * position, because the weights before the step's update gave the losses. Seconds are sums of step times, without validations and saves.
 */
export function amountBefore({ name, configuration, events }: Plotted, over: Over): (step: number) => number {
  if (over === 'steps') return (step) => step;
  const { totalBatch } = configuration ?? {};
  // A reference has no log with the tokens of each step, so compute them from its total batch.
  if (!events && over === 'tokens' && typeof totalBatch === 'number') return (step) => step * totalBatch;
  const { steps, values } = new LoggedRun(events).series[over];
  const before = [0];
  // Stop at the first gap in the log, because the sums after it are unknown.
  for (const [index, step] of steps.entries()) if (step === index) before.push(before[index]! + values[index]!);
  return (step) => {
    const amount = before[step];
    if (amount !== undefined) return amount;
    throw gpt2Error`${name} does not record the ${over} before step ${step}: take another --over, or a run as --reference`;
  };
}
