// `compare`: a run's curve over a reference: table, plot, verdict. How far the two are apart and what counts as inside is
// left to ../compare, drawing to ../report; a verdict of outside travels to the exit code as an error.
import { writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { Command } from 'commander';
import { Gpt2Error, UsageError } from '../errors.ts';
import {
  type Comparison,
  compareSeries,
  formatTable,
  lossPlot,
  matchingReference,
  mismatches,
  type Reference,
  type RunRecord,
  readReference,
  readRun,
  referenceNames,
} from '../index.ts';

interface Flags {
  readonly reference?: string;
  readonly tolerance?: number;
  readonly out?: string;
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
  npm run compare runs/d6 -- --out d6.svg                  the plot somewhere else
  npm run --silent compare runs/d6 -- --json               the figures, for a program to read

Columns: steps that run and reference both have; the worst |difference| and its step; the mean |difference|; the first
step beyond its limit; both values at the last step they have in common.

Exit code 0: inside the reference's limits (or --tolerance at every step), or there is no reference; 1: outside, or the
run is not configured as the reference.
`;

/** The command; its action throws Gpt2Error where the exit code is to be 1. */
export function compareCommand(): Command {
  return new Command('compare')
    .description("Lay a run's curve over a reference")
    .argument('<run>', 'run folder')
    .option('--reference <NAME|FILE>', 'the reference (default: the one with the same configuration)')
    .option('--tolerance <X>', 'largest difference at every step of every series', readTolerance)
    .option('--out <FILE>', 'where the SVG plot goes (default: compare.svg in the run folder)')
    .option('--json', 'the result as JSON on stdout')
    .addHelpText('after', help)
    .action(compare);
}

function readTolerance(text: string): number {
  const value = /^(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : Number.NaN;
  if (!Number.isFinite(value))
    throw new UsageError(`--tolerance takes a number of at least 0, not ${JSON.stringify(text)}`);
  return value;
}

function compare(runFolder: string, flags: Flags): void {
  const run = readRun(runFolder);
  const reference = flags.reference ? readReference(flags.reference) : matchingReference(run.configuration);
  if (reference) checkConfiguration(run, reference);
  const comparison = reference && compareSeries(run.series, reference, flags.tolerance);
  if (reference && comparison?.series.every(({ steps }) => steps === 0)) {
    throw new Gpt2Error(`${runFolder} has no step in common with ${reference.name} yet; train it further`);
  }

  const plot = flags.out ?? join(runFolder, 'compare.svg');
  // The figures come first: a plot that cannot be written takes nothing from them.
  if (flags.json) {
    const result = comparison ?? { series: ownFigures(run) };
    process.stdout.write(toJson({ run: runFolder, reference: reference?.name ?? null, plot, ...result }));
  } else if (reference && comparison) {
    process.stdout.write(`${describeComparison(runFolder, run, reference, comparison, flags.tolerance)}\n`);
  } else {
    process.stdout.write(`${describeAlone(run)}\n`);
  }
  const { tolerance } = flags;
  writePlot(plot, lossPlot(basename(resolve(runFolder)), run, reference ? [reference] : [], { tolerance }));
  if (!flags.json) process.stdout.write(`plot: ${plot}\n`);
  if (reference && comparison) checkInside(comparison, reference.name);
}

/** @throws Gpt2Error naming every field that differs */
function checkConfiguration(run: RunRecord, reference: Reference): void {
  const differences = describeMismatches(run, reference);
  if (differences === '') return;
  throw new Gpt2Error(
    `the run is not configured as ${reference.name}: ${differences}; train with these, or name another --reference`,
  );
}

const describeMismatches = ({ configuration }: RunRecord, reference: Reference): string =>
  mismatches(configuration, reference)
    .map(({ field, run, reference: wanted }) => `${field} ${run ?? 'none'} instead of ${wanted}`)
    .join(', ');

/** @throws Gpt2Error naming what is outside: series, first step, by how much, limit */
function checkInside({ series, inside }: Comparison, name: string): void {
  if (inside) return;
  const reasons = series.flatMap(({ series: of, beyond, meanBeyond }) => [
    ...(beyond
      ? [`${of} at step ${beyond.step} is off by ${digits(beyond.difference)}, over ${digits(beyond.within)}`]
      : []),
    ...(meanBeyond
      ? [
          `${of} is off by ${digits(meanBeyond.mean)} on average over steps ${meanBeyond.limit.from} to ${meanBeyond.limit.to}, over ${digits(meanBeyond.limit.within)}`,
        ]
      : []),
  ]);
  throw new Gpt2Error(`outside the limits of ${name}: ${reasons.join('; ')}`);
}

function describeComparison(
  runFolder: string,
  run: RunRecord,
  reference: Reference,
  { series, finalValidation, inside }: Comparison,
  tolerance: number | undefined,
): string {
  const rows = series.map(({ series: name, steps, worst, mean, beyond, meanBeyond }) => {
    const recorded = new Map(reference.series[name]);
    const last = run.series[name].findLast(([step]) => recorded.has(step));
    return [
      name,
      String(steps),
      worst ? digits(worst.difference) : '-',
      worst ? String(worst.step) : '-',
      steps > 0 ? digits(mean) : '-',
      beyond ? String(beyond.step) : meanBeyond ? `mean of ${meanBeyond.limit.from}-${meanBeyond.limit.to}` : 'none',
      last ? shown(last[1]) : '-',
      last ? shown(recorded.get(last[0])!) : '-',
    ];
  });
  const header = ['series', 'steps', 'worst', 'at step', 'mean', 'beyond limit', 'last', 'reference'];
  const lines = [`${runFolder} over ${reference.name}`, formatTable([header, ...rows])];
  if (finalValidation) {
    const { step, run: ours, reference: theirs } = finalValidation;
    lines.push(`final validation, at step ${step}: ${ours.toFixed(4)}, reference ${theirs.toFixed(4)}`);
  }
  const judged = series.map((one) => `${one.series} ${one.judged} of ${one.steps}`).join(', ');
  const what = tolerance === undefined ? `the limits of ${reference.name}` : `the tolerance of ${tolerance}`;
  if (inside) lines.push(`inside ${what}; steps judged: ${judged}`);
  return lines.join('\n');
}

function describeAlone(run: RunRecord): string {
  const rows = ownFigures(run).map(({ series, steps, first, least, last }) => [
    series,
    String(steps),
    ...[first, least, last].map((value) => (value === null ? '-' : digits(value))),
  ]);
  const lines = [
    "no reference has this run's configuration; its own figures:",
    formatTable([['series', 'steps', 'first', 'least', 'last'], ...rows]),
  ];
  const nearest = nearestReference(run);
  if (nearest) lines.push(`nearest: ${nearest.name}, but ${describeMismatches(run, nearest)}`);
  return lines.join('\n');
}

/** Of the references over the same data and model, the one that fewest fields keep from being laid under the run. */
function nearestReference({ configuration }: RunRecord): Reference | undefined {
  return referenceNames()
    .map((name) => readReference(name))
    .map((reference) => ({ reference, fields: mismatches(configuration, reference).map(({ field }) => field) }))
    .filter(({ fields }) => !['data', 'model', 'layers', 'channels', 'heads'].some((field) => fields.includes(field)))
    .sort((a, b) => a.fields.length - b.fields.length)[0]?.reference;
}

function ownFigures({ series }: RunRecord) {
  return (['train', 'val', 'norm', 'lr'] as const).map((name) => {
    const values = series[name].map(([, value]) => value);
    const least = values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
    return {
      series: name,
      steps: values.length,
      first: values[0] ?? null,
      least: values.length > 0 ? least : null,
      last: values.at(-1) ?? null,
    };
  });
}

const digits = (value: number): string =>
  value === 0 ? '0' : Math.abs(value) < 1e-4 ? value.toExponential(1) : value.toFixed(5);

/** With four decimals, as llm.c prints losses, but a learning rate with digits that say something. */
const shown = (value: number): string =>
  value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toFixed(4);

/** As the run log writes them: numbers that JSON lacks are words. */
const toJson = (value: object): string =>
  `${JSON.stringify(value, (_, one: unknown) => (typeof one === 'number' && !Number.isFinite(one) ? String(one) : one))}\n`;

function writePlot(path: string, svg: string): void {
  try {
    writeFileSync(path, svg);
  } catch (cause) {
    throw new Gpt2Error(`cannot write the plot ${path}: ${(cause as Error).message}; name another file with --out`, {
      cause,
    });
  }
}
