// `compare`: curves of runs over references or over each other: table, plot, report, verdict. How far two are apart and what
// counts as inside is left to ../compare, words and drawing to ../report; a verdict of outside travels to the exit code as
// an error.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { styleText } from 'node:util';
import { Command, Option } from 'commander';
import { compareSeries, Gpt2Error, type RunRecord, UsageError } from '../index.ts';
import {
  type Compared,
  describeComparison,
  describeMismatches,
  describeOutside,
  endOfRun,
  formatTable,
  htmlReport,
  lossPlot,
  mismatches,
  type NamedRun,
  nearestReference,
  ownFigures,
  ownHead,
  ownRows,
  type Pairing,
  pairRuns,
  referenceNames,
  renderPng,
  reportData,
  terminalPlot,
} from '../program.ts';
import { strictNumber } from './strict-number.ts';

interface Flags {
  readonly reference?: readonly string[];
  readonly tolerance?: number;
  readonly out?: string;
  readonly html?: string;
  readonly plot?: boolean;
  readonly json?: boolean;
}

const help = (): string => `
References that come with gpt2.ts:
${referenceNames()
  .map((name) => `  ${name}`)
  .join('\n')}

Examples:
  npm run compare runs/d6                                  over the reference with the same configuration
  npm run compare runs/d6 -- --reference llmc-d6-fp32-b4-t64 --tolerance 0.01
  npm run compare runs/d6 -- --reference recorded.json     a curve of your own, in the format of data/reference
  npm run compare runs/b runs/c -- --reference runs/a      runs over another run, whatever they were configured as
  npm run compare runs/a runs/b runs/c                     over the reference of all of them, or else over the first
  npm run compare runs/d6 -- --plot                        the curves in the terminal
  npm run compare runs/d6 -- --out d6.png --html d6.html   plot (.svg or .png) and report somewhere else
  npm run --silent compare runs/d6 -- --json               the figures, for a program to read

The report is one HTML file that needs no network: zoom, values at every step, log axis, smoothing, differences.

Columns: steps that run and reference both have; the worst |difference| and its step; the mean |difference|; the first
step beyond its limit; both values at the last step they have in common.

Exit code 0: inside the reference's limits (or --tolerance at every step), or there is no reference; 1: outside, or the
run is not configured as the reference. Over another run only --tolerance judges.
`;

/** The command; its action throws Gpt2Error where the exit code is to be 1. */
export function compareCommand(): Command {
  return new Command('compare')
    .description("Lay runs' curves over references, or over each other")
    .argument('<RUN...>', 'run folders')
    .addOption(
      new Option(
        '--reference <NAME|FILE|RUN>',
        'what to lay them over; may be given more than once (default: the reference with the same configuration)',
      ).argParser((name: string, before: string[] = []) => [...before, name]),
    )
    .option(
      '--tolerance <X>',
      'largest difference at every step of every series',
      strictNumber('--tolerance', 0, Number.MAX_VALUE, 'any'),
    )
    .option(
      '--out <FILE>',
      'where the plot goes, .svg or .png (default: compare.svg in the first run folder)',
      readPlotName,
    )
    .option('--html <FILE>', 'where the report goes (default: beside the plot, under its name)')
    .option('--plot', 'draw the training losses in the terminal')
    .option('--json', 'the result as JSON on stdout')
    .addHelpText('after', help)
    .action(compare);
}

function readPlotName(name: string): string {
  if (/\.(svg|png)$/i.test(name)) return name;
  throw new UsageError(`--out takes a file that ends in .svg or .png, not ${JSON.stringify(name)}`);
}

async function compare(folders: readonly string[], flags: Flags): Promise<void> {
  const { tolerance } = flags;
  const pairing = pairRuns(folders, flags.reference);
  const { runs, baselines } = pairing;
  if (tolerance !== undefined && pairing.pairs.length === 0) {
    throw new UsageError(
      `--tolerance has nothing to judge ${folders[0]} by: no reference has its configuration; name one with --reference, or a second run`,
    );
  }
  const compared = pairing.pairs.map((pair) => ({
    ...pair,
    comparison: compareSeries(pair.run.series, pair.over, tolerance),
  }));
  for (const { run, over, comparison } of compared) {
    if (comparison.series.some(({ steps }) => steps > 0)) continue;
    throw new Gpt2Error(`${run.folder} has no step in common with ${over.name} yet; train it further`);
  }

  const plot = flags.out ?? join(folders[0]!, 'compare.svg');
  const report = flags.html ?? plot.replace(/\.\w+$/, '.html');
  // The figures come first: a plot that cannot be written takes nothing from them.
  if (flags.json) process.stdout.write(toJson(result(pairing, compared, { plot, report })));
  else process.stdout.write(`${describe(pairing, compared, tolerance)}\n`);
  if (flags.plot && !flags.json) process.stdout.write(`${inTerminal(pairing)}\n`);
  const svg = lossPlot(runs, baselines, { tolerance });
  write('plot', plot, /\.png$/i.test(plot) ? await renderPng(svg) : svg, '--out');
  write('report', report, htmlReport(reportData(runs, baselines, { compared, tolerance })), '--html');
  if (!flags.json) process.stdout.write(`plot: ${plot}\nreport: ${report}\n`);
  checkInside(compared);
}

function describe({ runs }: Pairing, compared: readonly Compared[], tolerance: number | undefined): string {
  if (compared.length === 0) return describeAlone(runs[0]!);
  return compared.map((one) => describeComparison(one, tolerance)).join('\n\n');
}

/** One comparison lies open; several are a list. */
function result({ runs }: Pairing, compared: readonly Compared[], files: { plot: string; report: string }): object {
  const [first, second] = compared;
  const of = (run: NamedRun) => ({ run: run.folder, end: endOfRun(run) });
  if (!first) return { ...of(runs[0]!), reference: null, ...files, series: ownFigures(runs[0]!) };
  const one = ({ run, over, comparison }: Compared) => ({ ...of(run), reference: over.name, ...comparison });
  return second ? { ...files, comparisons: compared.map(one) } : { ...one(first), ...files };
}

/** @throws Gpt2Error naming what is outside: series, first step, by how much, limit */
function checkInside(compared: readonly Compared[]): void {
  const outside = compared.filter(({ comparison }) => !comparison.inside);
  if (outside.length === 0) return;
  const of = ({ run, over }: Compared) => (compared.length === 1 ? over.name : `${over.name} is ${run.folder}`);
  throw new Gpt2Error(
    `outside the limits of ${outside.map((one) => `${of(one)}: ${describeOutside(one.comparison)}`).join('; of ')}`,
  );
}

function describeAlone(run: RunRecord): string {
  const lines = [
    "no reference has this run's configuration; its own figures:",
    formatTable([ownHead, ...ownRows(run)]),
    endOfRun(run).text,
  ];
  const nearest = nearestReference(run.configuration);
  if (nearest) {
    lines.push(`nearest: ${nearest.name}, but ${describeMismatches(mismatches(run.configuration, nearest))}`);
  }
  return lines.join('\n');
}

/** As wide as the terminal, but no wider than can be read; in colours where stdout shows them. */
function inTerminal({ runs, baselines }: Pairing): string {
  const width = Math.min(process.stdout.columns ?? 80, 140);
  // Baselines in orange and its like come first, as in the figure.
  const colors = [
    ...baselines.map((_, index) => (['yellow', 'green', 'magenta'] as const)[index % 3]!),
    ...runs.map((_, index) => (['blueBright', 'red', 'cyan', 'white'] as const)[index % 4]!),
  ];
  const isColoured = styleText('red', 'x', { stream: process.stdout }) !== 'x';
  const paint = isColoured ? (curve: number, text: string) => styleText(colors[curve]!, text) : undefined;
  return terminalPlot(runs, baselines, { width, paint });
}

/** As the run log writes them: numbers that JSON lacks are words. */
const toJson = (value: object): string =>
  `${JSON.stringify(value, (_, one: unknown) => (typeof one === 'number' && !Number.isFinite(one) ? String(one) : one))}\n`;

function write(what: string, path: string, content: string | Buffer, flag: string): void {
  try {
    writeFileSync(path, content);
  } catch (cause) {
    throw new Gpt2Error(
      `cannot write the ${what} ${path}: ${(cause as Error).message}; name another file with ${flag}`,
      {
        cause,
      },
    );
  }
}
