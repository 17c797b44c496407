// Ranks runs by validation loss, with the options in which they differ.
import type { NamedRun } from '../compare/pairs.ts';
import { isCompared, recordedValue, shortValue } from '../options/configuration.ts';
import { flagOf } from '../options/row.ts';
import { type OptionName, optionRows, recordedNames } from '../options/table.ts';
import { whileIdle } from '../runs/lock.ts';
import type { RunRecord } from '../runs/reader.ts';
import { endOfRun } from './logged-run.ts';
import { formatStep, formatValue } from './numbers.ts';
import { formatTable } from './table.ts';

/** `failed`: a loss or gradient was not finite. A run that was killed is `stopped`. */
export type RunState = 'finished' | 'running' | 'stopped' | 'failed';

export function runState(folder: string, record: RunRecord): RunState {
  const { state } = endOfRun(record);
  if (state === 'finished') return state;
  if (!whileIdle(folder, () => {})) return 'running';
  return state === 'notFinite' ? 'failed' : 'stopped';
}

/** Updates done. */
export const stepsDone = ({ series }: Pick<RunRecord, 'series'>): number => (series.train.at(-1)?.[0] ?? -1) + 1;

/** A run's place in a ranking; null: no finite validation loss. */
export interface Ranked {
  readonly run: string;
  readonly name: string;
  /** The options in which the runs differ, by their names in config.json. */
  readonly options: Readonly<Partial<Record<OptionName, unknown>>>;
  /** The last validation loss, in nats per token, by which runs are ranked. */
  readonly last: number | null;
  readonly best: { readonly step: number; readonly loss: number } | null;
  readonly steps: number;
  readonly ofSteps: number;
  readonly state: RunState;
}

/** The runs by their last validation loss, least first; those without a finite one last. */
export function rankRuns(runs: readonly NamedRun[]): Ranked[] {
  const valueIn = ({ configuration }: NamedRun, name: OptionName) =>
    shortValue(name, recordedValue(configuration, name));
  const differing = recordedNames.filter(
    (name) => isCompared(name) && new Set(runs.map((run) => valueIn(run, name))).size > 1,
  );
  const ranked = runs.map((run): Ranked => {
    const { folder, name, series, configuration } = run;
    const finite = series.val.filter(([, loss]) => Number.isFinite(loss));
    const [step, loss] = finite.toSorted(([, a], [, b]) => a - b)[0] ?? [];
    const last = series.val.at(-1)?.[1] ?? Number.NaN;
    return {
      run: folder,
      name,
      options: Object.fromEntries(differing.map((option) => [option, valueIn(run, option)])),
      last: Number.isFinite(last) ? last : null,
      best: step === undefined ? null : { step, loss: loss! },
      steps: stepsDone(run),
      ofSteps: configuration.steps,
      state: runState(folder, run),
    };
  });
  const order = ({ last }: Ranked) => last ?? Number.MAX_VALUE;
  return ranked.sort((a, b) => order(a) - order(b));
}

/** A ranking as a table; options have the names of their flags. */
export function rankingTable(ranking: readonly Ranked[]) {
  const options = Object.keys(ranking[0]?.options ?? {}) as OptionName[];
  return {
    title: 'Ranking by last validation loss',
    head: [
      'run',
      ...options.map((name) => flagOf(optionRows[name]).slice(2)),
      ...['last val', 'best val', 'at step', 'steps', 'state'],
    ],
    rows: ranking.map(({ name, options: values, last, best, steps, ofSteps, state }) => [
      name,
      ...options.map((option) => String(values[option] ?? '-')),
      last === null ? '-' : formatValue(last),
      ...(best ? [formatValue(best.loss), formatStep(best.step)] : ['-', '-']),
      `${formatStep(steps)}/${formatStep(ofSteps)}`,
      state,
    ]),
  };
}

export function describeRanking(ranking: readonly Ranked[]): string {
  const { title, head, rows } = rankingTable(ranking);
  return `${title}\n${formatTable([head, ...rows])}`;
}
