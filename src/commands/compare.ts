// The command `compare`: table, plot, report and verdict of runs. A run outside the limits is an error, for the exit code.
import { basename, dirname, join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { Command, Option } from 'commander';
import { compareSeries } from '../index.ts';
import {
  bitsPerByte,
  type Compared,
  describeComparison,
  describeMismatches,
  describeOutside,
  describeTable,
  describeUnlike,
  endOfRun,
  type Figure,
  gpt2Error,
  htmlReport,
  lossPlot,
  makeFigure,
  mismatches,
  type NamedRun,
  nearestReference,
  type Over,
  overNames,
  ownFigures,
  ownTable,
  type Pairing,
  pairRuns,
  presetOf,
  type Ranking,
  rankingTable,
  rankRuns,
  real,
  referenceNames,
  renderPng,
  terminalPlot,
  unlike,
  usageError,
} from '../program.ts';
import { type Lists, type Numbers, numberOption, repeated, type Switches, type Texts } from './option-of-table.ts';
import { jsonLine, writeResult } from './output.ts';

type Shown = Lists<'reference'> & Numbers<'tolerance'> & Texts<'out' | 'html'> & Switches<'plot' | 'json'>;
type Flags = Shown & { readonly over: Over };

const help = (): string => `
References that come with gpt2.ts:
${referenceNames()
  .map((name) => `  ${name}`)
  .join('\n')}

Examples:
  npm run compare runs/d6                                  with the reference of the same configuration
  npm run compare runs/d6 -- --reference llmc-d6-fp32-b4-t64 --tolerance 0.01
  npm run compare runs/d6 -- --reference recorded.json     a curve of your own, in the format of data/reference
  npm run compare runs/b runs/c -- --reference runs/a      runs with another run of any configuration
  npm run compare runs/a runs/b                            with the reference of both, or else the second with the first
  npm run compare runs/sweep/*                             more than two runs: ranked by validation loss
  npm run compare runs/a runs/b -- --over seconds          curves over seconds of training, or --over tokens
  npm run compare runs/d6 -- --plot                        the curves in the terminal
  npm run compare runs/d6 -- --out d6.png --html d6.html   plot (.svg or .png) and report in other files
  npm run --silent compare runs/d6 -- --json               the figures as JSON

The report is one HTML file that needs no network: zoom, values at every step, log axis, smoothing, differences.

Columns: the common steps; the worst |difference| and its step; the mean |difference|; the first step beyond its limit;
both values at the last common step.

Over tokens or seconds every curve is drawn whole, without differences and limits: they are by step, as in the table. Seconds
are those of training steps, without validations, samples and saves. A reference has no seconds.

More than two runs without --reference, --tolerance or a reference of all: ranked by the last validation loss, with the
options in which they differ. State failed: a loss or gradient was not finite; stopped: also a run that was killed. A tie is
behind the first by less than twice the standard error (±) over the same sequences.

A run that validated other tokens than the reference or another run (--val-tokens, --val-steps) is compared without validations.
Losses over other data or another vocabulary cannot be compared, which is said first, with bits per byte if the logs have them:
these then rank the runs.

Exit code 0: inside the reference's limits (or --tolerance at every step), or no reference matches. 1: outside, or the
configurations differ. Another run has no limits: only --tolerance sets one. A ranking exits with 0, whatever its runs' state.
`;

export function compareCommand(): Command {
  return new Command('compare')
    .description('Compare the curves of runs with references or with each other')
    .argument('<RUN...>', 'run folders')
    .option(
      '--reference <NAME|FILE|RUN>',
      'what to compare with; repeatable (default: the matching reference)',
      repeated,
    )
    .addOption(
      numberOption(
        '--tolerance <X>',
        "limit of the difference at every step of every series, in place of a reference's",
        real(0, Number.MAX_VALUE),
      ),
    )
    .addOption(
      new Option('--over <AXIS>', 'what the curves are drawn over: steps, tokens, or seconds of training')
        .choices(overNames)
        .default('steps'),
    )
    .option(
      '--out <FILE>',
      'file of the plot, .svg or .png (default: compare.svg in the run; of several, next to them)',
      readPlotName,
    )
    .option('--html <FILE>', "file of the report (default: the plot's name with .html)")
    .option('--plot', 'draw the training losses in the terminal')
    .option('--json', 'the result as JSON on stdout')
    .addHelpText('after', help)
    .action(compare);
}

function readPlotName(name: string): string {
  if (/\.(svg|png)$/i.test(name)) return name;
  throw usageError`--out takes a file that ends in .svg or .png, not ${JSON.stringify(name)}`;
}

const plotName = 'compare.svg';

/**
 * The folder for plot and report: the run's folder, or the common parent of several runs; without one, the parent of the first
 * run.
 */
function folderFor(runs: readonly string[]): string {
  const parents = new Set(runs.map((run) => dirname(resolve(run))));
  return runs.length > 1 && parents.size === 1 ? join(runs[0]!, '..') : runs[0]!;
}

/** The paths without the plot and report of an earlier comparison, which runs/sweep/* also matches. */
const withoutPlots = (paths: readonly string[]): string[] =>
  paths.filter((path) => ![plotName, reportOf(plotName)].includes(basename(path)));

const reportOf = (plot: string): string => plot.replace(/\.\w+$/, '.html');

async function compare(paths: readonly string[], flags: Flags): Promise<void> {
  const { tolerance, over } = flags;
  const folders = withoutPlots(paths);
  const pairing = pairRuns(folders, flags.reference);
  const { runs, baselines } = pairing;
  if (tolerance !== undefined && pairing.pairs.length === 0) {
    throw usageError`--tolerance needs something to compare ${folders[0]} with: no reference has its configuration; name one with --reference, or a second run`;
  }
  const isRanked = runs.length > 2 && baselines.length === 0 && tolerance === undefined;
  const ranking = isRanked ? rankRuns(runs) : undefined;
  const compared = (ranking ? [] : pairing.pairs).map((pair) => ({
    ...pair,
    comparison: compareSeries(pair.run.series, pair.baseline, tolerance, unlike(pair.run, pair.baseline).leftOut),
  }));
  for (const { run, baseline, comparison } of compared) {
    const [unlike] = describeUnlike({ run, baseline });
    if (unlike && tolerance !== undefined) throw gpt2Error`${unlike}; leave out --tolerance`;
    if (comparison.series.some(({ steps }) => steps > 0)) continue;
    throw gpt2Error`${run.folder} has no step in common with ${baseline.name} yet: train it further`;
  }

  const plot = flags.out ?? join(folderFor(folders), plotName);
  const report = flags.html ?? reportOf(plot);
  const figure = makeFigure(runs, baselines, { compared, ranking, tolerance, over });
  const svg = lossPlot(figure);
  // The figures come first, so that they are printed even if the plot cannot be written.
  if (flags.json) process.stdout.write(jsonLine(result(pairing, compared, { plot, report, ranking })));
  else if (ranking) process.stdout.write(`${describeTable(rankingTable(ranking))}\n`);
  else if (compared.length === 0) process.stdout.write(`${describeAlone(runs[0]!)}\n`);
  else process.stdout.write(`${compared.map((one) => describeComparison(one, tolerance)).join('\n\n')}\n`);
  if (flags.plot && !flags.json) process.stdout.write(`${inTerminal(figure)}\n`);
  writeResult('plot', plot, /\.png$/i.test(plot) ? await renderPng(svg) : svg, '--out');
  writeResult('report', report, htmlReport(figure), '--html');
  if (!flags.json) process.stdout.write(`plot: ${plot}\nreport: ${report}\n`);
  checkInside(compared);
}

/** The fields of a single comparison are at the top level; several comparisons, and a ranking, are lists. */
function result(
  { runs }: Pairing,
  compared: readonly Compared[],
  { ranking, ...files }: { plot: string; report: string; ranking: Ranking | undefined },
): object {
  if (ranking) return { ...files, ...ranking };
  const [first, second] = compared;
  const of = (run: NamedRun) => ({ run: run.folder, end: endOfRun(run), bitsPerByte: bitsPerByte(run) });
  if (!first) return { ...of(runs[0]!), reference: null, ...files, series: ownFigures(runs[0]!) };
  const one = ({ run, baseline, comparison }: Compared) => {
    return { ...of(run), reference: baseline.name, unlike: describeUnlike({ run, baseline }), ...comparison };
  };
  return second ? { ...files, comparisons: compared.map(one) } : { ...one(first), ...files };
}

/** @throws Gpt2Error naming series, first step, difference and limit of each violation */
function checkInside(compared: readonly Compared[]): void {
  const outside = compared.filter(({ comparison }) => !comparison.inside);
  if (outside.length === 0) return;
  const of = ({ run, baseline }: Compared) =>
    compared.length === 1 ? baseline.name : `${baseline.name} is ${run.folder}`;
  throw gpt2Error`outside the limits of ${outside.map((one) => `${of(one)}: ${describeOutside(one.comparison)}`).join('; of ')}`;
}

function describeAlone(run: NamedRun): string {
  const nearest = nearestReference(run.configuration);
  const differing = nearest && describeMismatches(mismatches(run.configuration, nearest));
  const table = ownTable(run);
  return describeTable({
    ...table,
    title: "no reference has this run's configuration; its own figures:",
    notes: [...table.notes, ...(nearest ? [`nearest: ${nearest.name}${presetOf(nearest)}, but ${differing}`] : [])],
  });
}

/** As wide as the terminal, up to 140 columns; in colour if stdout supports it. */
function inTerminal(figure: Figure): string {
  const width = Math.min(process.stdout.columns ?? 80, 140);
  const isColoured = styleText('red', 'x', { stream: process.stdout }) !== 'x';
  const paint = isColoured ? (color: string, text: string) => styleText(color as 'red', text) : undefined;
  return terminalPlot(figure, { width, paint });
}
