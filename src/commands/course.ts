import { Command } from 'commander';
import {
  asTyped,
  barsSvg,
  type CheckedExercise,
  checkCourse,
  climb,
  ExitError,
  formatCount,
  formatTable,
  type LadderOptions,
  type MeasuredStep,
  optionNames,
  presetNames,
  shellWord,
  startCourse,
  whole,
} from '../program.ts';
import {
  count,
  type Lists,
  type Numbers,
  numberOption,
  optionsFromFlags,
  repeated,
  type Texts,
  tableOption,
  timeLimitOption,
} from './option-of-table.ts';
import { notice, writeResult } from './output.ts';

const examples = `
Examples:
  npm run gpt2 -- course start                 copy the exercises to my-course
  npm run gpt2 -- course check                 which of them are solved, and what is wrong in the next one
  npm run gpt2 -- course ladder                train GPT-2 on naive kernels, then on better and better ones

An exercise is a .cu file that says what is missing, and where. kernels/course explains how the kernels of GPT-2 are written.
`;

const ladderExamples = `
Examples:
  npm run gpt2 -- course ladder --out ladder.json --plot ladder.svg
  npm run gpt2 -- course ladder --chapter layernorm --chapter gelu
`;

const batch = { usage: '--batch <B>', type: whole(1, 65536) };
const folderHelp = 'folder of your exercises';

export function courseCommand(): Command {
  const start = new Command('start')
    .description('Copy the exercises of the course to a new folder')
    .argument('[FOLDER]', folderHelp, 'my-course')
    .addHelpText('after', '\nExamples:\n  npm run gpt2 -- course start\n')
    .action((folder: string) => {
      startCourse(folder);
      const next = asTyped(`npm run gpt2 -- course check ${shellWord(folder)}`);
      process.stdout.write(`wrote the exercises to ${folder}; next: ${next}\n`);
    });
  const checking = new Command('check')
    .description('Test your exercises in the emulator, and print the score')
    .argument('[FOLDER]', folderHelp, 'my-course')
    .addOption(timeLimitOption())
    .addHelpText('after', '\nExamples:\n  npm run gpt2 -- course check\n\nExit code: 1 unless all are solved.\n')
    .action(check);
  const ladder = new Command('ladder')
    .description("Time GPT-2's training on naive kernels, on each rung of the course, and on the library's")
    .addOption(tableOption('device'))
    .addOption(tableOption('model', { usage: '--model <NAME>', help: presetNames.join(', '), type: presetNames }))
    .addOption(tableOption('batch', { ...batch, help: 'sequences in a step', default: { text: '4' } }))
    .addOption(tableOption('sequence'))
    .addOption(numberOption('--steps <N>', 'measured steps per rung, after two warmup steps', count, 3))
    .option('--chapter <NAME>', 'chapter to climb; the others stay naive; repeatable (default: all)', repeated)
    .option('--out <FILE>', 'write the results as JSON')
    .option('--plot <FILE>', 'draw the results as SVG')
    .addHelpText('after', ladderExamples)
    .action(ladderOf);
  return new Command('course')
    .description('Exercises in writing CUDA kernels, and what better kernels gain')
    .addHelpText('after', examples)
    .addCommand(start)
    .addCommand(checking)
    .addCommand(ladder);
}

async function check(folder: string, { timeLimit }: { timeLimit: number }): Promise<void> {
  const checked: CheckedExercise[] = [];
  for await (const exercise of checkCourse(folder, timeLimit)) {
    checked.push(exercise);
    const { name, solved, isUntouched } = exercise;
    const unsolved = isUntouched ? 'open' : 'wrong';
    process.stdout.write(`${name.padEnd(24)}${solved === undefined ? unsolved : `solved ${solved.slice(0, 10)}`}\n`);
  }
  const open = checked.filter(({ solved }) => solved === undefined);
  process.stdout.write(`${checked.length - open.length} of ${checked.length} solved\n`);
  if (open.length === 0) return;
  const [{ source, lines }] = open as [CheckedExercise];
  process.stdout.write(`next: ${source}\n${lines.map((line) => `  ${line}\n`).join('')}`);
  throw new ExitError(1);
}

type LadderFlags = Required<Numbers<'steps'>> & Lists<'chapter'> & Texts<'out' | 'plot'>;

async function ladderOf({ steps, chapter, out, plot, ...flags }: LadderFlags): Promise<void> {
  const training = optionsFromFlags(optionNames, { ...flags }) as LadderOptions['training'];
  const measured: MeasuredStep[] = [];
  let what = '';
  const onStart = (text: string) => {
    what = text;
    notice(text);
  };
  for await (const step of climb({ training, steps, chapters: chapter, onStart })) {
    measured.push(step);
    notice(`${step.name}, ${step.dtype}: ${step.ms.toPrecision(4)} ms a step`);
  }
  const [first] = measured as [MeasuredStep];
  const rows = measured.map(({ name, dtype, ms, tokensPerSecond }) => [
    ...[name, dtype, ms.toPrecision(4), formatRate(tokensPerSecond)],
    (tokensPerSecond / first.tokensPerSecond).toPrecision(3),
  ]);
  process.stdout.write(`${formatTable([['kernels', 'dtype', 'ms a step', 'tokens/s', 'times naive'], ...rows])}\n`);
  const [command, date] = [`gpt2 ${process.argv.slice(2).join(' ')}`, new Date().toISOString()];
  if (out !== undefined) {
    writeResult('results', out, `${JSON.stringify({ command, date, what, steps: measured }, undefined, 2)}\n`, '--out');
  }
  if (plot !== undefined) writeResult('plot', plot, ladderSvg(measured, `${what}, ${date.slice(0, 10)}`), '--plot');
}

/** Formats a rate in tokens/s: "12,345"; below 100 with two significant digits, "0.87". */
const formatRate = (rate: number): string => (rate < 100 ? rate.toPrecision(2) : formatCount(Math.round(rate)));

const ladderSvg = (measured: readonly MeasuredStep[], source: string): string =>
  barsSvg(
    { title: 'GPT-2 training, from naive kernels to the library', axis: 'tokens/s', source },
    measured.map(({ name, dtype, tokensPerSecond }) => ({
      ...{ name: `${name}, ${dtype}`, value: tokensPerSecond },
      label: formatRate(tokensPerSecond),
      color: name === 'the library' ? '#c05020' : '#3070b0',
    })),
  );
