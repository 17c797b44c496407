// `compare`: a run's curve over a reference: table, plot, verdict.
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
  type Series,
} from '../index.ts';

interface Flags {
  readonly reference?: string;
  readonly tolerance?: number;
  readonly out?: string;
  readonly json?: boolean;
}

const examples = `
References that come with gpt2.ts:
${referenceNames()
  .map((name) => `  ${name}`)
  .join('\n')}

Examples:
  npm run compare runs/d6                                  over the reference with the same configuration
  npm run compare runs/d6 -- --reference llmc-d6-fp32-b4-t64 --tolerance 0.01
  npm run compare runs/d6 -- --out d6.svg

Exit code 0: inside the reference's limits (or --tolerance at every step); 1: outside.
`;

export function compareCommand(): Command {
  return new Command('compare')
    .description("Lay a run's curve over a reference")
    .argument('<run>', 'run folder')
    .option('--reference <NAME|FILE>', 'the reference (default: the one with the same configuration)')
    .option('--tolerance <X>', 'largest difference of losses and norms at every step', readTolerance)
    .option('--out <FILE>', 'where the SVG plot goes (default: compare.svg in the run folder)')
    .option('--json', 'the result as JSON on stdout')
    .addHelpText('after', examples)
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
  const plot = flags.out ?? join(runFolder, 'compare.svg');
  writePlot(plot, lossPlot(basename(resolve(runFolder)), run, reference));
  if (flags.json) {
    process.stdout.write(`${JSON.stringify({ run: runFolder, reference: reference?.name, plot, ...comparison })}\n`);
  } else if (reference && comparison) {
    process.stdout.write(
      `${runFolder} over ${reference.name}\n${comparisonTable(run, reference, comparison)}\nplot: ${plot}\n`,
    );
  } else {
    process.stdout.write(
      `no reference has this run's configuration; its own figures:\n${ownTable(run)}\nplot: ${plot}\n`,
    );
  }
  if (comparison) checkInside(comparison, reference.name);
}

/** @throws Gpt2Error naming every field that differs */
function checkConfiguration({ configuration }: RunRecord, reference: Reference): void {
  const differences = mismatches(configuration, reference).map(
    ({ field, run, reference: wanted }) => `${field} ${run} instead of ${wanted}`,
  );
  if (differences.length > 0) {
    throw new Gpt2Error(`the run is not configured as ${reference.name}: ${differences.join(', ')}`);
  }
}

/** @throws Gpt2Error naming the first step beyond a limit */
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

const digits = (value: number): string =>
  value === 0 ? '0' : value < 1e-4 ? value.toExponential(1) : value.toFixed(5);
const last = (series: Series): string => (series.length > 0 ? series.at(-1)![1].toFixed(4) : '-');

function comparisonTable(run: RunRecord, reference: Reference, { series }: Comparison): string {
  const rows = series.map(({ series: name, steps, worst, mean, beyond, meanBeyond }) => [
    name,
    String(steps),
    worst ? digits(worst.difference) : '-',
    worst ? String(worst.step) : '-',
    steps > 0 ? digits(mean) : '-',
    beyond ? String(beyond.step) : meanBeyond ? `mean of ${meanBeyond.limit.from}-${meanBeyond.limit.to}` : 'none',
    last(run.series[name]),
    last(reference.series[name].filter(([step]) => run.series[name].some(([ours]) => ours === step))),
  ]);
  return formatTable([['series', 'steps', 'worst', 'at step', 'mean', 'beyond limit', 'last', 'reference'], ...rows]);
}

function ownTable({ series }: RunRecord): string {
  const rows = (['train', 'val', 'norm', 'lr'] as const).map((name) => {
    const values = series[name].map(([, value]) => value);
    const figures = values.length > 0 ? [values[0]!, Math.min(...values), values.at(-1)!].map(digits) : ['-', '-', '-'];
    return [name, String(values.length), ...figures];
  });
  return formatTable([['series', 'steps', 'first', 'least', 'last'], ...rows]);
}

function writePlot(path: string, svg: string): void {
  try {
    writeFileSync(path, svg);
  } catch (cause) {
    throw new Gpt2Error(`cannot write the plot ${path}: ${(cause as Error).message}; name another file with --out`, {
      cause,
    });
  }
}
