// Places steps on a figure's horizontal axis: as steps, or as the tokens or seconds that they took, by which runs with other
// batches, models or machines can be compared.
import { gpt2Error } from '../base/errors.ts';
import type { RunRecord } from '../runs/reader.ts';
import type { Baseline } from './compare/compare.ts';
import type { Reference } from './compare/reference.ts';
import { LoggedRun } from './logged-run.ts';

/** A run or a reference, as far as a figure draws and describes it. */
export interface Plotted extends Baseline {
  readonly source?: Reference['source'];
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly events?: RunRecord['events'];
}

export const overNames = ['steps', 'tokens', 'seconds'] as const;
/** The quantity of a figure's horizontal axis. */
export type Over = (typeof overNames)[number];

const units: Readonly<Record<Over, Readonly<Record<string, number>>>> = {
  steps: {},
  tokens: { 'billion tokens': 1e9, 'million tokens': 1e6, 'thousand tokens': 1e3, tokens: 1 },
  seconds: { 'hours of training': 3600, 'minutes of training': 60, 'seconds of training': 1 },
};

/** The largest unit with room for a few marks; steps have no unit. */
export function unitOf(over: Over, last: number): readonly [unit: string | undefined, size: number] {
  const all = Object.entries(units[over]);
  return all.find(([, size]) => last >= 5 * size) ?? all.at(-1) ?? [undefined, 1];
}

/**
 * The steps, tokens or seconds before a step. Its training loss and validation loss are drawn there, because both are computed
 * with the weights before the step's update. Seconds count steps only: no starts, validations, samples or saves.
 */
export function amountBefore({ name, configuration, events }: Plotted, over: Over): (step: number) => number {
  if (over === 'steps') return (step) => step;
  const { totalBatch } = configuration ?? {};
  // A reference has no events.
  if (!events && over === 'tokens' && typeof totalBatch === 'number') return (step) => step * totalBatch;
  const { steps, values } = new LoggedRun(events).series[over];
  const before = [0];
  // After a gap in the log the sum is unknown.
  for (const [index, step] of steps.entries()) if (step === index) before.push(before[index]! + values[index]!);
  return (step) => {
    const amount = before[step];
    if (amount !== undefined) return amount;
    throw gpt2Error`${name} does not record the ${over} before step ${step}: take another --over, or a run as --reference`;
  };
}
