import { existsSync } from 'node:fs';
import { basename, relative } from 'node:path';
import { Command, Option } from 'commander';
import { Gpt2Error } from '../index.ts';
import {
  attempt,
  findRuns,
  formatBytes,
  formatTable,
  gpt2Error,
  type RunSummary,
  shorten,
  shortTime,
  summarizeRun,
  withTies,
} from '../program.ts';
import { notice, printResult } from './output.ts';

const examples = `
Examples:
  npm run gpt2 -- runs                          the runs in runs/, and those of its sweeps, the newest first
  npm run gpt2 -- runs runs/sweep --sort val    those of a sweep, the least validation loss first
  npm run --silent gpt2 -- runs --json          the figures as JSON, with names in full

Columns: start (UTC); steps done and of all; the last training and validation loss; tokens/s by the median of the last steps;
running: a process of this machine writes the run; stopped: it can be resumed, also after a kill; failed: a loss or gradient was
not finite; bytes of the run folder. A tie is behind the least loss over the same sequences by less than twice the difference's
standard error. In a terminal with too few columns, models and data sets are shortened.
`;

const defaultFolder = 'runs';
/** Most characters of a model's or data set's name in a table that would otherwise be wider than the terminal. */
const longestText = 10;

interface Column {
  /** The cell's text. `longest`: most characters of a model's or data set's name. */
  readonly text: (run: RunSummary, longest: number) => string;
  /** The sort key for --sort, in ascending order. */
  readonly order: (run: RunSummary) => string | number;
}

const loss = (name: 'train' | 'val'): Column => ({
  text: (run) => `${run[name]?.toFixed(4) ?? '-'}${name === 'val' && run.behind?.isTie ? ' tie' : ''}`,
  // For `val` all keys are equal. The sort then keeps the order of withTies: by validation loss within each data set.
  order: (run) => (name === 'val' ? 0 : Number.isFinite(run[name]) ? run[name]! : Number.POSITIVE_INFINITY),
});

const columns: Readonly<Record<string, Column>> = {
  // A run's path is never shortened, because other commands take it as an argument.
  run: { text: ({ run }) => run, order: ({ run }) => run },
  started: { text: ({ started }) => shortTime(started), order: ({ started }) => -Date.parse(started) },
  model: { text: ({ model }, longest) => shorten(basename(model), longest), order: ({ model }) => model },
  data: { text: ({ data }, longest) => shorten(data, longest), order: ({ data }) => data },
  steps: { text: ({ steps, ofSteps }) => `${steps}/${ofSteps}`, order: ({ steps }) => -steps },
  train: loss('train'),
  val: loss('val'),
  'tok/s': {
    text: ({ tokensPerSecond: rate }) =>
      rate?.toLocaleString('en-US', { notation: 'compact', maximumSignificantDigits: 3 }) ?? '-',
    order: ({ tokensPerSecond }) => -(tokensPerSecond ?? 0),
  },
  state: { text: ({ state }) => state, order: ({ state }) => state },
  size: { text: ({ bytes }) => formatBytes(bytes).replace(/ (.)?.*/, '$1'), order: ({ bytes }) => -bytes },
};

const names = Object.keys(columns);

export function runsCommand(): Command {
  const sort = new Option('--sort <NAME>', `column to sort by: ${names.join(', ')}`);
  return new Command('runs')
    .description('List runs')
    .argument('[FOLDER]', 'folder of runs', defaultFolder)
    .addOption(sort.choices(names).default('started'))
    .option('--json', 'print the figures as JSON')
    .addHelpText('after', examples)
    .action(list);
}

function list(folder: string, { sort, json }: { readonly sort: string; readonly json?: boolean }): void {
  const { order } = columns[sort]!;
  if (folder !== defaultFolder && !existsSync(folder)) {
    throw gpt2Error`${folder} does not exist; name a folder of runs`;
  }
  const found = findRuns(folder).flatMap((run) => {
    const summary = attempt(() => summarizeRun(run));
    if (!(summary instanceof Gpt2Error)) {
      if (summary.gap) notice(`${run}: ${summary.gap}`);
      return summary;
    }
    notice(`left out: ${summary.message}`);
    return [];
  });
  const { dataSets, runs: sorted } = withTies(found);
  if (sort === 'val' && dataSets > 1) {
    notice(`losses on other data or vocabularies cannot be compared: sorted within each of ${dataSets} data sets`);
  }
  const runs = sorted.sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
  const lines = runs.length > 0 ? [tableOf(folder, runs)] : [`no runs in ${folder}; npm run train starts one`];
  printResult({ folder, runs }, lines, json);
}

/** The table of runs. If it is wider than the terminal, names of models and data sets are shortened. */
function tableOf(folder: string, runs: readonly RunSummary[]): string {
  const named = runs.map((run) => ({ ...run, run: relative(folder, run.run) || run.run }));
  const row = (run: RunSummary, longest: number) => Object.values(columns).map(({ text }) => text(run, longest));
  const draw = (longest: number) => formatTable([names, ...named.map((run) => row(run, longest))]);
  const whole = draw(Number.POSITIVE_INFINITY);
  const width = whole.indexOf('\n');
  return width > (process.stdout.columns ?? Number.POSITIVE_INFINITY) ? draw(longestText) : whole;
}
