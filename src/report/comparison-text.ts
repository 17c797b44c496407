// Describes the result of a comparison (compare/) as a table with notes, for the terminal and the HTML report.
import { configurationDifferences, describeMismatches } from '../options/configuration.ts';
import { seriesNames } from '../runs/curves.ts';
import type { RunRecord } from '../runs/reader.ts';
import { type Baseline, type Comparison, pairsOf } from './compare/compare.ts';
import { isRun, type NamedRun, type Pair } from './compare/pairs.ts';
import { presetOf } from './compare/reference.ts';
import { describeTable, formatValue, type Table, valueOr } from './format-text.ts';
import { endOfRun } from './logged-run.ts';
import { bitsPerByte, unlike } from './measured.ts';

export interface Compared extends Pair {
  readonly comparison: Comparison;
}

export function comparisonTable(compared: Compared, tolerance?: number): Table {
  const { run, baseline, comparison } = compared;
  const isJudged = judges(baseline, tolerance);
  const rows = comparison.series.map(({ series, steps, worst, mean, beyond, meanBeyond }) => {
    const last = pairsOf(run.series[series], baseline.series[series]).at(-1);
    const within = meanBeyond ? `mean of ${meanBeyond.limit.from}-${meanBeyond.limit.to}` : isJudged ? 'none' : '-';
    return [
      ...[series, String(steps), valueOr(worst?.difference), String(worst?.step ?? '-')],
      ...[valueOr(steps > 0 ? mean : undefined), beyond ? String(beyond.step) : within],
      ...[valueOr(last?.run), valueOr(last?.reference)],
    ];
  });
  return {
    title: [`${run.name} vs ${baseline.name}`, ...describeUnlike(compared)].join(': '),
    head: ['series', 'steps', 'worst', 'at step', 'mean', 'beyond limit', 'last', 'reference'],
    rows,
    notes: comparisonNotes(compared, tolerance),
    outside: describeOutside(comparison),
  };
}

/** Notes below the table: how the runs ended, the last step at which both were validated, differing options, a good verdict. */
function comparisonNotes({ run, baseline, comparison }: Compared, tolerance?: number): string[] {
  const { finalValidation, series, inside } = comparison;
  const runs = [run, ...(isRun(baseline) ? [baseline] : [])];
  const notes = runs.flatMap((one) => [`${one.name}: ${endOfRun(one).text}`, ...earlierOptions(one)]);
  if (finalValidation) {
    const { step, run: ours, reference: theirs } = finalValidation;
    notes.push(`last validation in common, at step ${step}: ${formatValue(ours)}, reference ${formatValue(theirs)}`);
  }
  const { otherText, leftOut } = unlike(run, baseline);
  if (leftOut.length > otherText.length) {
    const { valSteps } = baseline.configuration;
    const flag = isRun(baseline) ? '' : `; --val-steps ${valSteps} gives the reference's${presetOf(baseline)}`;
    notes.push(`left out: val, validated on other tokens${flag}`);
  }
  if (isRun(baseline)) {
    const differences = describeMismatches(configurationDifferences(run.configuration, baseline.configuration));
    notes.push(differences === '' ? 'configured alike' : `configured with ${differences}`);
  }
  if (!judges(baseline, tolerance)) return [...notes, 'a run has no limits: --tolerance sets one'];
  if (!inside) return notes;
  const what = tolerance === undefined ? `the limits of ${baseline.name}` : `the limit of --tolerance ${tolerance}`;
  const judged = series.map((one) => `${one.series} ${one.judged} of ${one.steps}`).join(', ');
  return [...notes, `inside ${what}; steps with a limit: ${judged}`];
}

/** A line on why losses cannot be compared, with the runs' bits per byte, which can be compared; [] if the losses can be compared. */
export function describeUnlike({ run, baseline }: Pair): string[] {
  const which = unlike(run, baseline).otherText.map((series) => ({ train: 'training', val: 'validation' })[series]);
  const differing = configurationDifferences(run.configuration, baseline.configuration);
  const fields = describeMismatches(differing.filter(({ field }) => field === 'data' || field === 'vocabularySize'));
  const [ours, theirs] = [run, baseline].map((one) => bitsPerByte(one)?.toFixed(4));
  const bits = ours && theirs ? `; bits per byte ${ours} instead of ${theirs}` : '';
  const reason = fields || `the tokens in ${run.configuration.data} changed`;
  return which.length === 0 ? [] : [`losses of ${which.join(' and ')} cannot be compared: ${reason}${bits}`];
}

/** Notes on earlier options of a run that was resumed with other options. `configuration` has the options of the last start. */
export function earlierOptions({ name, events, configuration }: Omit<NamedRun, 'folder' | 'series'>): string[] {
  const starts = events.filter((event) => event.event === 'run');
  return starts.slice(0, -1).flatMap((start, index) => {
    const end = starts[index + 1]!.resumedFrom ?? 0;
    const differences = describeMismatches(configurationDifferences(start.configuration, configuration));
    if (end <= (start.resumedFrom ?? 0) || differences === '') return [];
    return [`${name}: until step ${end} configured with ${differences}`];
  });
}

/** A comparison as text for the terminal. Its title is the line of `describeUnlike`, if any, and the names of run and baseline. */
export function describeComparison(compared: Compared, tolerance?: number): string {
  const { run, baseline } = compared;
  const names = `${run.folder} vs ${isRun(baseline) ? baseline.folder : baseline.name}`;
  const title = [...describeUnlike(compared), names].join('\n');
  return describeTable({ ...comparisonTable(compared, tolerance), title });
}

/** The violated limits in words: series, first step, difference, limit; '' if no limit is violated. */
export const describeOutside = ({ series }: Comparison): string =>
  series
    .flatMap(({ series: of, beyond, meanBeyond }) => [
      beyond &&
        `${of} at step ${beyond.step} is off by ${formatValue(beyond.difference)}, over ${formatValue(beyond.within)}`,
      meanBeyond &&
        `${of} is off by ${formatValue(meanBeyond.mean)} on average over steps ${meanBeyond.limit.from} to ${meanBeyond.limit.to}, over ${formatValue(meanBeyond.limit.within)}`,
    ])
    .filter(Boolean)
    .join('; ');

const judges = ({ limits }: Baseline, tolerance: number | undefined): boolean =>
  limits !== undefined || tolerance !== undefined;

export const ownTable = (run: Omit<NamedRun, 'folder'>): Table => ({
  title: run.name,
  head: ['series', 'steps', 'first', 'least', 'last'],
  rows: ownFigures(run).map(({ series, steps, ...values }) => [
    ...[series, String(steps)],
    ...[values.first, values.least, values.last].map(valueOr),
  ]),
  notes: [endOfRun(run).text, ...earlierOptions(run)],
});

/** Summary of a run by series: its number of steps, and its first, least and last value (null if the series is empty). */
export function ownFigures({ series }: Pick<RunRecord, 'series'>) {
  return seriesNames.map((name) => {
    const values = series[name].map(([, value]) => value);
    const [first = null, last = null] = [values[0], values.at(-1)];
    const least = first === null ? null : values.reduce((a, b) => Math.min(a, b));
    return { series: name, steps: values.length, first, least, last };
  });
}
