// The command `compare`: table, plot, report and verdict of runs. It throws if a run violates a limit, so the exit code is 1.
import { existsSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { styleText } from 'node:util';
import { Command, Option } from 'commander';
import {
  compareRuns,
  type Figure,
  findRuns,
  gpt2Error,
  htmlReport,
  lossPlot,
  type Over,
  orElse,
  overNames,
  real,
  referenceNames,
  renderPng,
  terminalPlot,
  usageError,
} from '../program.ts';
import { type Lists, type Numbers, numberOption, repeated, type Switches, type Texts } from './option-of-table.ts';
import { jsonLine, writeResult } from './output.ts';

type Shown = Lists<'reference'> & Numbers<'tolerance'> & Texts<'out' | 'html'> & Switches<'plot' | 'json'>;

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
behind the least by less than twice the standard error (±) over the same sequences.

A run that validated other tokens than the reference or another run (--val-tokens, --val-steps) is compared without validations.
Losses over other data or another vocabulary cannot be compared; a line above says so, with bits per byte if the logs have them.
Such runs are ranked within each data set.

Exit code 0: inside the reference's limits (or --tolerance at every step), or no reference matches. 1: outside, or the
configurations differ. Another run has no limits: only --tolerance sets one. A ranking exits with 0, whatever its runs' state.
`;

const referenceHelp = 'what to compare with; repeatable (default: the matching reference)';
const toleranceHelp = "limit of the difference at every step of every series, in place of a reference's";
const overHelp = 'what the curves are drawn over: steps, tokens, or seconds of training';
const outHelp = 'file of the plot, .svg or .png (default: compare.svg in the run; of several, next to them)';

export function compareCommand(): Command {
  return new Command('compare')
    .description('Compare the curves of runs with references or with each other')
    .argument('<RUN...>', 'run folders, or folders of runs')
    .option('--reference <NAME|FILE|RUN>', referenceHelp, repeated)
    .addOption(numberOption('--tolerance <X>', toleranceHelp, real(0, Number.MAX_VALUE)))
    .addOption(new Option('--over <AXIS>', overHelp).choices(overNames).default('steps'))
    .option('--out <FILE>', outHelp, readPlotName)
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

/** The folder for plot and report: the runs' common parent. For a single run, or without a common parent, the first run's folder. */
function folderFor(runs: readonly string[]): string {
  const parents = new Set(runs.map((run) => dirname(resolve(run))));
  return runs.length > 1 && parents.size === 1 ? join(runs[0]!, '..') : runs[0]!;
}

/** The run folders at or below the paths. Keeps a path without runs, which readRun refuses; drops plots, which runs/* may match. */
const runsIn = (paths: readonly string[]): string[] =>
  paths.flatMap((path) => {
    if ([plotName, reportOf(plotName)].includes(basename(path))) return [];
    const found = orElse([], () => findRuns(path));
    return found.length > 0 ? found : path;
  });

const reportOf = (plot: string): string => plot.replace(/\.\w+$/, '.html');

async function compare(paths: readonly string[], flags: Shown & { readonly over: Over }): Promise<void> {
  const reference = paths.find((path) => referenceNames().includes(path) && !existsSync(path));
  if (reference) throw usageError`${reference} is a reference, not a run: give it as --reference ${reference}`;
  const folders = runsIn(paths);
  const { figure, describe, resultWith, outside } = compareRuns(folders, flags);
  const plot = flags.out ?? join(folderFor(folders), plotName);
  const report = flags.html ?? reportOf(plot);
  const svg = lossPlot(figure);
  // Print the results first: they are then shown even if the plot file cannot be written.
  process.stdout.write(flags.json ? jsonLine(resultWith({ plot, report })) : `${describe()}\n`);
  if (flags.plot && !flags.json) process.stdout.write(`${inTerminal(figure)}\n`);
  writeResult('plot', plot, /\.png$/i.test(plot) ? await renderPng(svg) : svg, '--out');
  writeResult('report', report, htmlReport(figure), '--html');
  if (!flags.json) process.stdout.write(`plot: ${plot}\nreport: ${report}\n`);
  if (outside !== '') throw gpt2Error`outside the limits of ${outside}`;
}

/** The plot as text: as wide as the terminal, up to 140 columns; coloured if stdout supports colours. */
function inTerminal(figure: Figure): string {
  const width = Math.min(process.stdout.columns ?? 80, 140);
  const isColoured = styleText('red', 'x', { stream: process.stdout }) !== 'x';
  const paint = isColoured ? (color: string, text: string) => styleText(color as 'red', text) : undefined;
  return terminalPlot(figure, { width, paint });
}
