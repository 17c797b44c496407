// Places steps on a figure's horizontal axis: steps, or the tokens or seconds that they took, over which runs with other batches,
// models or machines compare.
import { Gpt2Error } from '../base/errors.ts';
import type { RunRecord } from '../runs/reader.ts';
import type { Baseline } from './compare/compare.ts';
import type { Reference } from './compare/reference.ts';
import { LoggedRun } from './logged-run.ts';

/** The drawn and described part of a run or a reference. */
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

/** The largest unit with room for a few marks; steps have none. */
export function unitOf(over: Over, last: number): readonly [unit: string | undefined, size: number] {
  const all = Object.entries(units[over]);
  return all.find(([, size]) => last >= 5 * size) ?? all.at(-1) ?? [undefined, 1];
}

/**
 * The steps, tokens or seconds before a step, where its training loss and a validation are drawn: both are of the weights that
 * the step has yet to update. Seconds are those of steps alone: without starts, validations, samples and saves.
 */
export function amountBefore({ name, configuration, events }: Plotted, over: Over): (step: number) => number {
  if (over === 'steps') return (step) => step;
  const { totalBatch } = configuration ?? {};
  // A reference.
  if (!events && over === 'tokens' && typeof totalBatch === 'number') return (step) => step * totalBatch;
  const { steps, values } = new LoggedRun(events).series[over];
  const before = [0];
  // After a gap in the log the sum is unknown.
  for (const [index, step] of steps.entries()) if (step === index) before.push(before[index]! + values[index]!);
  return (step) => {
    const amount = before[step];
    if (amount !== undefined) return amount;
    throw new Gpt2Error(
      `${name} does not record the ${over} before step ${step}: take another --over, or a run as --reference`,
    );
  };
}
