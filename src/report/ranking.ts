// Ranks runs by their last validation loss, with the options in which they differ. Also summarizes runs for `gpt2 runs`.
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { customModel, modelLabel } from '../model/config.ts';
import { isCompared, recordedValue, shortValue } from '../options/configuration.ts';
import { flagNamed, type OptionName, recordedNames } from '../options/table.ts';
import { whileIdle } from '../runs/lock.ts';
import { type RunRecord, readRun } from '../runs/reader.ts';
import type { NamedRun } from './compare/pairs.ts';
import { describeUnlike } from './comparison-text.ts';
import { describeTable, formatCount, type Table, valueOr } from './format-text.ts';
import { endOfRun, LoggedRun } from './logged-run.ts';
import { bitsPerByte, lastEvent, unlike } from './measured.ts';

/** The state of a run. `failed`: a loss or norm was not finite; `stopped`: stopped or killed; `gap`: steps missing in the log. */
function standOf(folder: string, record: RunRecord) {
  const { state, gap } = endOfRun(record);
  if (state === 'finished') return { state, gap } as const;
  if (!whileIdle(folder, () => {})) return { state: 'running', gap } as const;
  return { state: state === 'notFinite' ? 'failed' : 'stopped', gap } as const;
}

/** Number of steps done: the steps in the log, or the updates before the newest checkpoint if a damaged log has fewer steps. */
const stepsDone = ({ series, saved = 0 }: Pick<RunRecord, 'series' | 'saved'>): number =>
  Math.max((series.train.at(-1)?.[0] ?? -1) + 1, saved);

/** The last validation loss of `run` minus the last of `best`; null unless the logs list both runs' losses of the same sequences. */
export function behind(run: Validated, best: Validated) {
  const [ours, theirs] = [lastEvent(run, 'val'), lastEvent(best, 'val')];
  const [losses = [], others = []] = [ours?.sequenceLosses, theirs?.sequenceLosses];
  const count = losses.length;
  if (count < 2 || others.length !== count || ours?.tokens !== theirs?.tokens) return null;
  if (unlike(run, best).leftOut.includes('val')) return null;
  const apart = losses.map((loss, index) => loss - others[index]!);
  const mean = apart.reduce((sum, one) => sum + one, 0) / count;
  const variance = apart.reduce((sum, one) => sum + (one - mean) ** 2, 0) / (count - 1);
  // Divide by the number of all sequences: the log lists at most 1,000 sequence losses, but the validation loss is a mean over all.
  const sequences = Math.max(count, (ours!.tokens ?? 0) / run.configuration.sequence);
  const [difference, standardError] = [ours!.loss - theirs!.loss, Math.sqrt(variance / sequences)];
  if (!Number.isFinite(difference + standardError)) return null;
  return { difference, standardError, isTie: Math.abs(difference) < Math.max(2 * standardError, rounding) };
}

/** Smaller differences are ties: rounding alone put two runs with different --batch 1.6e-8 apart, which was three standard errors. */
const rounding = 5e-5;

type Validated = Pick<RunRecord, 'configuration' | 'events'>;

const finite = (value = Number.NaN): number | null => (Number.isFinite(value) ? value : null);

/** A ranking of runs: a title, the runs from the least loss on, and notes on results that cannot be compared. */
export type Ranking = ReturnType<typeof rankRuns>;

/**
 * Sorts runs within each data set by their last validation loss, the least first. Runs without a finite loss come last. Bits per byte
 * cannot rank runs of different data sets: an easy text has fewer bits, and logs do not tell which data sets are made from one text.
 * @returns each run with `behind`: its loss minus the least loss that was measured on the same sequences; null for the least loss
 */
function sortedByLoss<R>(runs: readonly R[], logOf: (run: R) => Validated) {
  const lossOf = (run: R) => finite(lastEvent(logOf(run), 'val')?.loss);
  const dataSets: R[][] = [];
  for (const run of runs.filter((one) => lossOf(one) !== null)) {
    const alike = dataSets.find(([one]) => !unlike(logOf(run), logOf(one!)).otherText.includes('val'));
    if (alike) alike.push(run);
    else dataSets.push([run]);
  }
  const validated = dataSets.flatMap((alike) => alike.sort((a, b) => lossOf(a)! - lossOf(b)!));
  const sorted = [...validated, ...runs.filter((run) => lossOf(run) === null)].map((run) => {
    const best = validated.find((one) => one === run || behind(logOf(run), logOf(one)));
    return { run, behind: best && best !== run ? behind(logOf(run), logOf(best)) : null };
  });
  return { dataSets: dataSets.length, sorted };
}

/** Ranks runs by `sortedByLoss`. `dataSets`: the number of data sets; only runs of one data set are ranked against each other. */
export function rankRuns(runs: readonly NamedRun[]) {
  const valueIn = ({ configuration }: NamedRun, name: OptionName) =>
    shortValue(name, recordedValue(configuration, name));
  const isSame = (name: OptionName) => new Set(runs.map((run) => valueIn(run, name))).size === 1;
  const differing = recordedNames.filter((name) => isCompared(name) && !isSame(name));
  const lastOf = ({ series }: NamedRun) => finite(series.val.at(-1)?.[1]);
  const { dataSets, sorted } = sortedByLoss(runs, (run) => run);
  const first = sorted[0]!.run;
  const ranking = sorted.map(({ run, behind }) => {
    const { folder, name, series, configuration } = run;
    const losses = series.val.filter(([, loss]) => Number.isFinite(loss));
    const [step, loss] = losses.toSorted(([, a], [, b]) => a - b)[0] ?? [];
    return {
      run: folder,
      name,
      /** The options in which the runs differ, by their names in config.json. */
      options: Object.fromEntries(differing.map((option) => [option, valueIn(run, option)])),
      /** The last validation loss in nats per token; null if it is not finite or there is none. */
      last: lastOf(run),
      behind,
      bitsPerByte: finite(bitsPerByte(run)),
      best: step === undefined ? null : { step, loss: loss! },
      steps: stepsDone(run),
      ofSteps: configuration.steps,
      ...standOf(folder, run),
    };
  });
  const [warning] = sorted.flatMap(({ run }) => describeUnlike({ run, baseline: first }));
  const notes = [
    ...ranking.map(({ name, gap }) => gap !== undefined && `${name}: ${gap}`),
    ranking.some((run) => run.behind) &&
      `tie: behind the least by less than ${rounding} or twice the standard error (±) over the sequences; seeds can differ by more`,
    sorted.some(({ run }) => lastOf(run) !== null && unlike(run, first).leftOut.includes('val')) &&
      'not all runs validated the same tokens',
  ].filter((note) => note !== false);
  const within = dataSets > 1 ? ' within each data set' : '';
  const title = [`Ranking by last validation loss${within}`, ...(warning ? [warning] : [])].join(': ');
  return { title, dataSets, ranking, notes };
}

/** The ranking as a table. Columns of options are named by the options' flags. */
export function rankingTable({ title, ranking, notes }: Ranking): Table {
  const options = Object.keys(ranking[0]?.options ?? {}) as OptionName[];
  // Leave out the columns `behind` and `bits/byte` for older logs, which lack losses of single sequences and bytes of the validation text.
  const isMeasured = ranking.some((run) => run.behind);
  const hasBits = ranking.some((run) => run.bitsPerByte !== null);
  return {
    title,
    notes,
    head: [
      ...['run', ...options.map((name) => flagNamed(name).slice(2)), 'last val'],
      ...[...(isMeasured ? ['behind'] : []), ...(hasBits ? ['bits/byte'] : [])],
      ...['best val', 'at step', 'steps', 'state'],
    ],
    rows: ranking.map((run) => [
      ...[run.name, ...options.map((option) => String(run.options[option] ?? '-')), valueOr(run.last)],
      ...[...(isMeasured ? [describeBehind(run)] : []), ...(hasBits ? [valueOr(run.bitsPerByte)] : [])],
      ...[valueOr(run.best?.loss), run.best ? formatCount(run.best.step) : '-'],
      ...[`${formatCount(run.steps)}/${formatCount(run.ofSteps)}`, run.state],
    ]),
  };
}

export const describeRanking = (ranking: Ranking): string => describeTable(rankingTable(ranking));

/** How far a run's loss is above the least loss, with the standard error: "0.0012 ± 0.0010 tie". */
const describeBehind = ({ behind }: Ranking['ranking'][number]): string =>
  behind ? `${behind.difference.toFixed(4)} ± ${behind.standardError.toFixed(4)}${behind.isTie ? ' tie' : ''}` : '-';

/** A row of `gpt2 runs`. `train` and `val` are the last losses in nats per token; null if there is none yet. */
export type RunSummary = ReturnType<typeof withTies>['runs'][number];

/** Reads a run and summarizes it. @throws Gpt2Error as `readRun` */
export function summarizeRun(run: string) {
  const record = readRun(run);
  const { events, series, configuration } = record;
  return {
    run,
    /** Time of the first start: ISO 8601, UTC. */
    started: events.find((event) => event.event === 'run')!.time,
    model: configuration.model === customModel ? modelLabel(configuration) : configuration.model,
    data: String(shortValue('data', configuration.data)),
    steps: stepsDone(record),
    ofSteps: configuration.steps,
    train: series.train.at(-1)?.[1] ?? null,
    val: series.val.at(-1)?.[1] ?? null,
    bitsPerByte: finite(bitsPerByte(record)),
    /** Computed from the median time of the last steps; null before the first step. */
    tokensPerSecond: new LoggedRun(events).tokensPerSecond ?? null,
    ...standOf(run, record),
    bytes: bytesIn(run),
    validated: { configuration, events: [lastEvent(record, 'run')!, lastEvent(record, 'val')!].filter(Boolean) },
  };
}

/** Sorts summaries by `sortedByLoss`, and adds `behind` to each: its difference from the least validation loss. */
export function withTies(summaries: readonly ReturnType<typeof summarizeRun>[]) {
  const { dataSets, sorted } = sortedByLoss(summaries, ({ validated }) => validated);
  return { dataSets, runs: sorted.map(({ run: { validated, ...run }, behind }) => ({ ...run, behind })) };
}

/** Total bytes of the files in a folder. A file that is removed meanwhile counts as zero bytes. */
function bytesIn(folder: string): number {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) =>
    statSync(join(folder, name), { throwIfNoEntry: false }),
  );
  return files.reduce((sum, file) => sum + (file?.isFile() ? file.size : 0), 0);
}
