// The command `quickstart`: trains on the first published text that can be read, compares the run with recorded curves, and samples
// from the model. This process makes the data; `train`, `compare` and `sample` run as child processes.
import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Command } from 'commander';
import { findInputs, Gpt2Error, prepareDataset, prepareText, readRun } from '../index.ts';
import {
  asTyped,
  ExitError,
  explained,
  formatCount,
  gpt2Error,
  holdsRun,
  orElse,
  type PresetName,
  packageRoot,
  readPreset,
  shardPrefix,
  shellWord,
} from '../program.ts';
import { runPart } from './child.ts';
import { notice } from './output.ts';

/** The published texts in the order in which they are tried, each with the preset whose reference curve was recorded on the text. */
const curves: Readonly<Record<string, PresetName>> = {
  tinyshakespeare: 'llmc-d6-fp32-b4-t64',
  'moby-dick': 'pytorch-d6-fp32-b4-t64-moby-dick',
};
const stepsOfCurve = 60;
const laptop = 'shakespeare-laptop';
/** Training steps. On tinyshakespeare the loss falls fast up to this step, to 1.90 nats. 3,000 steps, 2.5 times as long, reach 1.70. */
const steps = 1200;
const leastBytes = 100_000;

const help = `
Without --text it takes tinyshakespeare, or moby-dick where npm alone can be reached, or else the pages of gpt2.ts, for which no
curve is recorded. GPT2_DATASETS names a folder that has the texts.

Exit code 0: every part is done, and the runs are inside the limits of their curves. 1: not, with the reason. 130: Ctrl-C.

Examples:
  npm run gpt2 -- quickstart
  npm run gpt2 -- quickstart --text book.txt
`;

export function quickstartCommand(interruption: (how: 'quiet') => AbortSignal): Command {
  return new Command('quickstart')
    .description('Train a small model in minutes, check it against a recorded curve, print its text')
    .option('--text <FILE>', `a text of your own, UTF-8, at least ${leastBytes / 1000} kB (default: a published text)`)
    .addHelpText('after', help)
    .action(async ({ text }: { text?: string }) => {
      const data = text === undefined ? await findData() : await dataOf(nameOf(text), [checkedText(text)]);
      await trainAndShow(data, interruption('quiet'));
    });
}

interface Data {
  /** Folder of the token shards in which a token is a character. */
  readonly folder: string;
  readonly vocabularySize: number;
  /** For a text with a recorded curve: the folder of its shards in GPT-2's tokens, and the preset of the curve. */
  readonly curve?: { readonly folder: string; readonly preset: PresetName };
}

async function findData(): Promise<Data> {
  for (const [name, preset] of Object.entries(curves)) {
    try {
      const { folder } = await prepareDataset(name);
      const characters = await prepareDataset(name, { tokenizer: 'char' });
      process.stdout.write(`data: ${folder}, ${characters.folder}\n`);
      return { ...characters, ...characters.dataset, curve: { folder, preset } };
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
      notice(`${name} is left out: ${error.message.split('; ')[0]}`);
    }
  }
  const pages = ['README.md', 'CONTRIBUTING.md', 'docs', 'kernels'].map((name) => join(packageRoot, name));
  notice('no published text is within reach: taking the pages of gpt2.ts, for which no curve is recorded');
  return dataOf('pages', pages);
}

/** Makes character-level token shards of texts in data/quickstart-NAME; a tenth of the tokens is for validation. */
async function dataOf(name: string, paths: readonly string[]): Promise<Data> {
  const out = join('data', `quickstart-${name}`);
  const { folder, dataset } = await prepareText(findInputs(paths, { include: ['*.md'] }), {
    ...{ out, tokenizer: 'char', overwrite: true, format: { kind: 'text' } },
    division: { prefix: shardPrefix(out), shardTokens: 1e8, validation: 0.1 },
  });
  process.stdout.write(`data: ${folder}\n`);
  return { folder, vocabularySize: dataset.vocabularySize };
}

const nameOf = (path: string): string => basename(path).replace(/(?<=.)\..*$/s, '');

/** @throws Gpt2Error if the file cannot be read or is too short to learn from. Whether it is UTF-8 is checked later, by prepareText. */
function checkedText(path: string): string {
  const advice = 'name a text file with --text';
  const stats = explained(`the text ${path} cannot be read`, advice, () => statSync(path));
  if (!stats.isFile()) throw gpt2Error`the text ${path} is not a file; ${advice}`;
  const { size } = stats;
  if (size >= leastBytes) return path;
  throw gpt2Error`the text ${path} has ${formatCount(size)} bytes, fewer than the ${formatCount(leastBytes)} from which a model learns words; name a longer one with --text`;
}

/** The last arguments of every training run that quickstart starts. A run whose logged command ends with them is quickstart's. */
const lastArguments = (out: string): string[] => ['--sample-every', '0', '--out', out, '--overwrite'];

/** @throws Gpt2Error if another command trained or resumed the run in the folder, because quickstart's --overwrite would replace it */
function refuseOtherRun(out: string): void {
  if (!holdsRun(out)) return;
  const ours = lastArguments(out).join(' ');
  const starts = orElse([], () => readRun(out).events.filter((event) => event.event === 'run'));
  if (starts.length > 0 && starts.every(({ command = [] }) => command.join(' ').endsWith(ours))) return;
  throw gpt2Error`${out} holds a run that is not quickstart's alone and would be replaced; rename that folder`;
}

async function trainAndShow({ folder, vocabularySize, curve }: Data, signal: AbortSignal): Promise<void> {
  const run = async (...args: string[]) => {
    process.stdout.write(`\n$ ${asTyped(`npm run gpt2 -- ${args.map(shellWord).join(' ')}`)}\n`);
    const end = await runPart(args, { signal });
    if (end !== 0) throw typeof end === 'number' ? new ExitError(end) : gpt2Error`${args[0]!} ended with ${end}`;
  };
  const train = async (out: string, preset: PresetName, data: string, ...more: string[]) => {
    await run('train', '--preset', preset, '--data', data, ...more, ...lastArguments(out));
    if (curve) await run('compare', out);
  };
  const out = curve ? 'runs/laptop' : `runs/${basename(folder)}`;
  for (const replaced of curve ? ['runs/quickstart', out] : [out]) refuseOtherRun(replaced);
  if (curve) await train('runs/quickstart', curve.preset, curve.folder, '--stop-after', `${stepsOfCurve}`);
  await train(out, laptop, folder, '--steps', `${steps}`);
  await run('sample', '--model', out, '--tokens', '400');

  const [, loss] = readRun(out).series.val.at(-1)!;
  const all = formatCount(readPreset(laptop).options.steps!);
  const commands = [
    [`sample --model ${shellWord(out)} -i`, 'type prompts, read their texts'],
    [`train --preset ${laptop} --data ${shellWord(folder)} --serve`, `all ${all} steps, with a live page`],
    curve
      ? ['quickstart --text FILE', 'the same with a text of yours']
      : [`report ${shellWord(out)}`, 'its curves, as one HTML file'],
    ['presets', 'other ready-made runs'],
  ].map(([command, what]) => `  ${`npm run gpt2 -- ${command}`.padEnd(90)}  ${what}`);
  const lines = [
    `A uniform guess among ${vocabularySize} characters loses ${Math.log(vocabularySize).toFixed(2)} (ln ${vocabularySize}). After ${formatCount(steps)} of ${all} steps the model loses`,
    `${loss.toFixed(4)} on text that it was not trained on.`,
    '',
    `In ${process.cwd()}:`,
    ...(curve
      ? [`  runs/quickstart: the first ${stepsOfCurve} steps of d6; open its compare.html for the curves`]
      : []),
    `  ${out}: the model of characters`,
    'Next:',
    ...commands,
  ];
  process.stdout.write(asTyped(`\n${lines.join('\n')}\n`));
}
