// Each command as README, docs and --help print it: it parses, and what needs neither network nor GPU nor time runs, on
// little data and small models, in a folder that has what the examples name.
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { parquetWriteBuffer } from 'hyparquet-writer';
import { beforeAll, describe, expect, it } from 'vitest';
import { pages } from '../../scripts/docs-figures.ts';
import { orElse } from '../../src/base/errors.ts';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { findTool } from '../../src/native/nvrtc.ts';
import { findCompiler } from '../../src/ops/kernels/compiler.ts';
import { readRun } from '../../src/runs/reader.ts';
import { root } from '../support/built.ts';
import { tinyModel, type Workplace, workplace } from '../support/cli.ts';
import { allCommands, argumentsOf, documentedCommands, helpOf, newProgram, parses } from '../support/documented.ts';
import { randomQuestions } from '../support/questions.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const sources = [
  ...[...pages(), 'CONTRIBUTING.md'].map((name) => ({ name, text: read(name) })),
  ...allCommands(newProgram()).map((command) => ({ name: `${command.name()} --help`, text: helpOf(command) })),
].map(({ name, text }) => ({ name, commands: documentedCommands(text) }));
const examples = sources.flatMap(({ commands }) => commands);
/** Each once, however it is typed; what has an ellipsis or a shell's arguments in it represents others. */
const all = [...new Map(examples.map((command) => [argumentsOf(command).join(' '), command])).values()].filter(
  (command) => !/…|\.\.\.|\$(@|argv)/.test(command),
);

it('are found', () => {
  expect(sources.find(({ name }) => name === 'README.md')!.commands.length).toBeGreaterThanOrEqual(20);
  const ofHelp = sources.filter(({ name }) => name.endsWith('--help'));
  for (const { name, commands } of ofHelp) expect(commands.length, `examples in ${name}`).toBeGreaterThan(0);
});

it.each(all)('parses: %s', async (command) => {
  expect(await parses(argumentsOf(command))).toBe(true);
});

const hasCompiler = orElse(undefined, findCompiler) !== undefined;

/** Flags that make it small; a text: why it is not run here. */
const smaller: Record<string, (args: string[]) => string[] | string> = {
  train: (args) => {
    if (args.includes('--resume')) return [];
    // A recipe's step has half a million tokens, a sequence of the second one 49,152.
    const short = args.includes('windowed') ? ['--seq', '16'] : [];
    const step = args.includes('--recipe') ? ['--total-batch', '1024', ...short] : [];
    if (args.includes('--for')) return [];
    // It measures steps of the model.
    if (args.includes('--dry-run')) return [...tinyModel, '--seq', '16', '--batch', '2', '--total-batch', '1024'];
    if (args.includes('--sweep')) return 'it starts processes; test/end-to-end/sweep.test.ts runs it';
    if (args.includes('gpt2-124m-fineweb') || args.includes('finetune')) return 'it needs a GPU or the network';
    if (args.includes('--kernel')) return 'it needs a device that runs kernels; test/lab runs it';
    if (args.includes('--gpus')) return 'it starts this process anew; test/end-to-end/ranks.test.ts runs it';
    const length = args.includes('--tokens') ? ['--tokens', '2k'] : ['--steps', '2'];
    const sizes = ['--seq', '16', '--batch', '2', ...length, ...step, '--warmup', '0', '--val-tokens', '32'];
    const served = args.includes('--serve') ? ['--serve', '0'] : [];
    return [...tinyModel, ...sizes, ...served, '--out', 'runs/made', '--overwrite'];
  },
  prepro: (args) => {
    if (args.includes('--help')) return [];
    if (['tinyshakespeare', 'moby-dick', 'fineweb'].includes(args[1]!) && !args.includes('--from'))
      return 'it needs the network';
    if (args.includes('data/tinyshakespeare-char')) return 'the text here has other characters';
    if (args[1] === 'own-source' || args[1] === 'tinyshakespeare') return ['--out', `data/made-${args[1]}`];
    if (args[1] === 'fineweb') return ['--shard-tokens', '100', '--workers', '1'];
    // Examples differ in what they make in the same folder.
    return ['text', 'tinystories'].includes(args[1]!) ? ['--workers', '1', '--overwrite'] : [];
  },
  quickstart: () => 'it trains for minutes; test/commands/quickstart.test.ts runs its parts',
  sample: (args) =>
    args.includes('-') || args.includes('-i') ? 'it reads standard input' : ['--device', 'cpu', '--tokens', '3'],
  eval: (args) => ['--device', 'cpu', '--batch', '1', ...(args.includes('--seq') ? ['--seq', '16'] : [])],
  compare: (args) => {
    if (args.some((word) => word.endsWith('*'))) return 'the shell expands it';
    return args.some((word) => word.startsWith('llmc-')) ? "it needs the reference's own data" : [];
  },
  kernel: (args) => {
    if (args.includes('--sass') && findTool('nvdisasm') === undefined) return 'it needs nvdisasm';
    if (['test', 'bench', 'watch', 'profile'].includes(args[1]!)) return 'it starts a process; test/lab runs it';
    if (args[1] === 'run') return 'it compiles programs; test/kernels/programs.test.ts runs some';
    const compiles = ['build', 'show'].includes(args[1]!);
    const needsNone = !compiles || (args.includes('--gpu') && hasCompiler);
    return needsNone ? [] : 'it needs a GPU, or a compiler for CUDA';
  },
  course: (args) => (args[1] === 'start' ? [] : 'it takes minutes; test/lab runs its parts'),
  replay: (args) => (args.includes('--kernel') ? 'it needs the kernels of the run; test/lab runs it' : []),
  report: (args) => (args.includes('--serve') ? 'it serves until it is stopped' : []),
  bench: (args) => {
    if (args.includes('modern')) return 'it takes ten seconds; test/train/runs.slow.test.ts runs it';
    if (args.includes('--generate')) return ['--device', 'cpu', '--model', 'd6', '--generate', '1'];
    const sizes = ['--model', 'd6', '--batch', '1', '--seq', '8', '--steps', '1', '--warmup-seconds', '0'];
    return ['--device', 'cpu', ...sizes, '--no-ops', '--no-start'];
  },
};

describe('runs', () => {
  const place = workplace();
  beforeAll(() => furnish(place));
  const env = () => ({ GPT2_DATASETS: place.path('sets'), XDG_CACHE_HOME: place.path('cache') });

  for (const command of all) {
    const args = argumentsOf(command);
    const more = smaller[args[0]!]?.(args) ?? [];
    if (typeof more === 'string') it.skip(`${command}: ${more}`, () => {});
    else it(command, () => place.okHere([...args, ...more], env()));
  }
});

/** Files, data sets and runs under the names that the examples use. */
async function furnish(place: Workplace): Promise<void> {
  const lines = Array.from({ length: 400 }, (_, index) => `${index} lines of little text with ${index % 9} words`);
  const text = lines.join('\n\n');
  const json = lines.map((line) => JSON.stringify({ text: line })).join('\n');
  const story = lines.join('\n<|endoftext|>\n');
  const files: Record<string, string | Uint8Array> = {
    'input.txt': text.repeat(40),
    'book.txt': text.repeat(20),
    'corpus.txt': text,
    'ascii.txt': `${String.fromCharCode(...Array.from({ length: 95 }, (_, index) => 32 + index))}\n${text.repeat(20)}`,
    'story.txt': text,
    'novel.txt': text.repeat(4),
    'notes/a.txt': text,
    'notes/b.txt': text.repeat(4),
    'notes/c.md': text.repeat(4),
    'дневник.txt': text.repeat(4),
    'dump.jsonl.gz': gzipSync(json),
    'fineweb-edu/000.jsonl': json,
    'table.parquet': new Uint8Array(
      parquetWriteBuffer({ columnData: [{ name: 'text', data: lines, type: 'STRING' }] }),
    ),
    'stories/TinyStories-train.txt': story,
    'stories/TinyStories-valid.txt': story,
    'sets/tinystories/TinyStoriesV2-GPT4-train.txt': story,
    'sets/tinystories/TinyStoriesV2-GPT4-valid.txt': story,
    'hellaswag_val.jsonl': JSON.stringify({ ctx: 'a b', endings: ['c', 'd', 'e', 'f'], label: 1 }),
    'my/tokenizer.json': read('test/fixtures/tokenizers/byte-level.json'),
    'gelu.cu': '__global__ void gelu(float *out, const float *in) {}',
    'benchmarks/.keep': '',
  };
  for (const [name, content] of Object.entries(files)) place.file(name, content);
  const run = (line: string) => place.okHere(line);
  for (const name of ['tiny_shakespeare', 'own-source', 'fineweb10B']) {
    await run(`prepro text book.txt --tokenizer bytes --out data/${name} --workers 1`);
  }
  renameSync(place.path('data/tiny_shakespeare'), place.path('data/tinyshakespeare'));
  await run('prepro text ascii.txt --tokenizer char --out data/tinyshakespeare-char --workers 1');
  mkdirSync(place.path('data/hellaswag'));
  writeQuestions(place.path('data/hellaswag/hellaswag_val.bin'), randomQuestions(4, { vocabulary: 200, longest: 8 }));
  const train = ['train', ...tinyModel, '--seq 16 --steps 2 --val-steps 1'].join(' ');
  await run(`${train} --save-every 1 --out runs/d6`);
  for (const name of ['quickstart', 'd12', 'windowed', 'a', 'b', 'c', 'x']) {
    cpSync(place.path('runs/d6'), place.path('runs', name), { recursive: true });
  }
  renameSync(place.path('runs/d6/checkpoints/step-00000001'), place.path('runs/d6/checkpoints/step-00000400'));
  const { series } = readRun(place.path('runs/d6'));
  const source = { program: 'gpt2.ts', version: '', hardware: '', precision: '', command: '' };
  const recorded = { name: 'recorded', source, configuration: {}, series, limits: [] };
  place.file('recorded.json', JSON.stringify(recorded));
  await run('export --model runs/a --format llmc --out gpt2_124M.bin');
  // A folder of this name wins over the hub's model.
  await run('export --model runs/a --format hf --out openai-community/gpt2');
  // At such a rate the second step's loss is not finite, and captured.
  expect((await place.here(`${train} --lr 1e38 --out runs/wild`)).code).toBe(1);
  const [capture] = readdirSync(place.path('runs/wild/captures'));
  mkdirSync(place.path('runs/d12/captures'));
  mkdirSync(place.path('runs/sweep'));
  renameSync(place.path('runs/wild/captures', capture!), place.path('runs/d12/captures/step-00000120'));
}
