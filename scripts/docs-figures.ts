// Writes the measured figures of README.md, docs/*.md and the course's pages from benchmarks/, and tables from the code: the text
// between `<!-- figures: KIND: a; b -->` and `<!-- end -->`. `npm run docs` writes the pages; a test fails when a page is stale. The
// file is long because it has a function of a few lines for each kind of table; the object `kinds` lists the functions.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import cpuBench from '../benchmarks/cpu-d12-b4-t64.json' with { type: 'json' };
import hopperBench from '../benchmarks/h100/d12-b64-t1024.json' with { type: 'json' };
import llmcBench from '../benchmarks/h100/llmc.json' with { type: 'json' };
import peerBench from '../benchmarks/h100/peers.json' with { type: 'json' };
import pytorchBench from '../benchmarks/h100/pytorch.json' with { type: 'json' };
import h100Runs from '../benchmarks/h100-runs.json' with { type: 'json' };
import d12Sample from '../benchmarks/h100-sample/d12.json' with { type: 'json' };
import { apiReference } from './docs-api.ts';
import { courseBest, courseChapter, courseLadder } from './docs-course.ts';
import { fits } from './docs-fits.ts';
import { dtypes, stepBlock } from './docs-header.ts';
import { recordedOptions, startOptions, table, trainOptions } from './docs-options.ts';
import { rooms } from './rooms.ts';

const root = new URL('../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

type Bench = typeof hopperBench;

const hopper = 'benchmarks/h100/d12-b64-t1024.json';
const portable = 'benchmarks/h100-portable-d12-b64.json';

const readJson = <T>(path: string): T => JSON.parse(read(path)) as T;
const link = (path: string): string => `[${path.split('/').at(-1)}](../${path})`;
const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;

/** The conditions under which `bench` was run. */
function provenance(path: string, { date, device, dtype, batch, sequence, step }: Bench): string {
  return `d12, batch ${batch} x ${sequence}, ${dtype}, ${device.device}, ${device.codePath} kernels, ${date.slice(0, 10)},\n${link(path)}; a step takes ${step.ms.median.toFixed(1)} ms.`;
}

/** The two measured rates from which a table's column "of the bound" follows. */
function bounds({ peaks: { matmulFlopsPerSecond, copyBytesPerSecond } }: Bench): string {
  const [flops, bytes] = [(matmulFlopsPerSecond / 1e12).toFixed(0), (copyBytesPerSecond / 1e12).toFixed(2)];
  return `[Bound](README.md#figures): our 8192^3 matmul runs at ${flops} TFLOP/s, a copy at ${bytes} TB/s.`;
}

function pick<T>(all: readonly T[], name: string, nameOf: (each: T) => string, source: string): T {
  const found = all.find((each) => nameOf(each) === name);
  if (found === undefined) throw new Error(`${source} has no "${name}"; it has ${all.map(nameOf).join('; ')}`);
  return found;
}

function ops(path: string, names: readonly string[]): string {
  const bench = readJson<Bench>(path);
  const { peaks, step } = bench;
  const rows = names.map((name) => {
    const { calls, ms, flops, bytes } = pick(bench.ops, name, (op) => op.name, path);
    const products = (1000 * flops) / peaks.matmulFlopsPerSecond;
    const memory = (1000 * bytes) / peaks.copyBytesPerSecond;
    return [
      name,
      String(calls),
      ms.toFixed(4),
      percent((ms * calls) / step.ms.median),
      flops > 0 ? (flops / ms / 1e9).toFixed(0) : '',
      (bytes / ms / 1e6).toFixed(0),
      products > memory ? 'arithmetic' : 'memory',
      percent(Math.max(products, memory) / ms),
    ];
  });
  const head = ['op', 'calls', 'ms per call', 'of the step', 'TFLOP/s', 'GB/s', 'limited by', 'of the bound'];
  return `${table(head, rows)}\n\n${provenance(path, bench)}\n${bounds(bench)}`;
}

function peers(names: readonly string[]): string {
  const path = 'benchmarks/h100/peers.json';
  const { results } = peerBench;
  const rows = names.map((name) => {
    const { oursMs, peerMs, ratio } = pick(results, name, (result) => result.name, path);
    return [name, oursMs.toFixed(3), peerMs.toFixed(3), ratio.toFixed(3)];
  });
  return `${table(['', 'ours, ms', 'library, ms', 'ratio'], rows)}\n\nBoth ran in one process, in turns. The ratio, our time over the library's, is the median over pairs of rounds, ${link(path)}.`;
}

/** All rows of a file's Markdown tables. */
const rowsOf = (path: string): string[][] =>
  read(path)
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.slice(2, -2).split(' | '));

/** Rows of a file's Markdown tables whose first cell has one of these beginnings. */
function rowsBy(path: string, head: readonly string[], beginnings: readonly string[]): string {
  const rows = rowsOf(path);
  const found = beginnings.map((beginning) => {
    const matching = rows.filter(([first]) => first?.startsWith(beginning));
    if (matching.length !== 1) throw new Error(`${path} has ${matching.length} rows that begin "${beginning}"`);
    return matching[0]!;
  });
  return table(head, found, head.length);
}

const tried = (path: string, head: readonly string[], beginnings: readonly string[]): string =>
  `${rowsBy(path, head, beginnings)}\n\nFrom ${link(path)}.`;

function cpu(names: readonly string[]): string {
  const path = 'benchmarks/cpu-d12-b4-t64.json';
  const { profile, cpu: name, cores, codePath, matmul } = cpuBench;
  const rows = names.map((wanted) => {
    const { calls, ms, gflops } = pick(profile.functions, wanted, (each) => each.name, path);
    return [wanted, String(calls), ms.toFixed(2), percent(ms / profile.meanStepMs), gflops?.toFixed(0) ?? ''];
  });
  const head = ['function', 'calls', 'ms per step', 'of the step', 'GFLOP/s'];
  return `${table(head, rows)}\n\nd12, batch 4 x 64, fp32, ${cores} cores of an ${name}, ${codePath}, ${link(path)};\nour ${matmul.squareSize}^3 matmul runs at ${matmul.squareGflops.toFixed(0)} GFLOP/s there.`;
}

/** The page of each kernel family, in the order of the model. */
const families = 'embedding layernorm matmul attention gelu-and-residual classifier optimizers'.split(' ');

/** The ops in a page's table of kind `ops`. */
const opsOf = (page: string): string[] => /figures: ops: (.*) -->/.exec(read(`docs/${page}.md`))![1]!.split('; ');

function stepByFamily(): string {
  const bench = hopperBench;
  const { step } = bench;
  const rest = new Set(bench.ops.map(({ name }) => name));
  const rows = families.map((page) => {
    const names = opsOf(page);
    const ms = names.reduce((sum, name) => {
      rest.delete(name);
      const op = pick(bench.ops, name, (each) => each.name, hopper);
      return sum + op.ms * op.calls;
    }, 0);
    return [`[${page}](${page}.md)`, names.join(', '), ms.toFixed(2), percent(ms / step.ms.median)];
  });
  if (rest.size > 0) throw new Error(`no page of a family has ${[...rest].join(', ')}`);
  const sum = bench.ops.reduce((total, { ms, calls }) => total + ms * calls, 0);
  rows.push(['between ops', '', (step.ms.median - sum).toFixed(2), percent(1 - sum / step.ms.median)]);
  return `${table(['page', 'ops', 'ms per step', 'share'], rows, 2)}\n\n${provenance(hopper, bench)}`;
}

type Shape = Readonly<{ model: string; batch: number; sequence: number }>;

const sameShape = (a: Shape) => (b: Shape) => a.model === b.model && a.batch === b.batch && a.sequence === b.sequence;

/** A table cell: another program's tokens/s, and in brackets our tokens/s on the same GPU divided by the other program's. */
const besideOurs = (tokensPerSecond: number, ratio: number): string =>
  `${whole(tokensPerSecond)} (${ratio.toFixed(3)} x)`;

/** The table cell for llm.c's training at a size, in its faster setting; '' if this size was not measured. */
function llmcBeside(shape: Shape): string {
  const found = llmcBench.results.find(sameShape(shape));
  return found ? besideOurs(Math.max(...found.llmc.map((one) => one.tokensPerSecond)), found.ratio) : '';
}

/** The table cell for PyTorch's training at a size, from the latest measurement of this size; '' if there is none. */
function pytorchBeside(shape: Shape): string {
  for (const folder of ['benchmarks/h100/', 'benchmarks/h100-earlier/']) {
    const found = readJson<typeof pytorchBench>(`${folder}pytorch.json`).results.find(sameShape(shape));
    const ours = benchesIn(folder).find(({ model, bench }) => sameShape(shape)({ ...bench, model }));
    if (found && ours) {
      return besideOurs(found.tokensPerSecond, ours.bench.step.tokensPerSecond.median / found.tokensPerSecond);
    }
  }
  return '';
}

const layersOf = ({ model }: { model: string }): number => Number(model.slice(1));

/** The benches in a folder, one for each size, sorted by model, sequence and batch. */
function benchesIn(folder: string): { model: string; bench: Bench }[] {
  return readdirSync(new URL(folder, root))
    .filter((name) => /^d\d+-b\d+-t\d+\.json$/.test(name))
    .map((name) => ({ model: name.split('-')[0]!, bench: readJson<Bench>(`${folder}${name}`) }))
    .sort((a, b) => layersOf(a) - layersOf(b) || b.bench.sequence - a.bench.sequence || b.bench.batch - a.bench.batch);
}

const sizeRows = (): string[][] =>
  benchesIn('benchmarks/h100/').map(({ model, bench }) => {
    const { batch, sequence, step, memory } = bench;
    return [
      model,
      `${batch} x ${sequence}`,
      whole(step.tokensPerSecond.median),
      llmcBeside({ model, batch, sequence }),
      pytorchBeside({ model, batch, sequence }),
      `${(memory.used / 2 ** 30).toFixed(1)} GiB`,
    ];
  });

const sampleBench = (model: string) => {
  const path = `benchmarks/h100-sample/${model}.json`;
  return { path, bench: readJson<typeof d12Sample>(path) };
};

function generationOps([model = '']: readonly string[]): string {
  const { path, bench } = sampleBench(model);
  const rows = bench.ops.map(({ name, calls, us }) => [name, String(calls), us.toFixed(2), (us * calls).toFixed(1)]);
  const whole = bench.decoding.map(({ position, us }) => `${us.toFixed(0)} us at position ${position}`).join(', ');
  return `${table(['op', 'calls', 'us per call', 'us per token'], rows)}\n\n${model}, one text, ${bench.dtype}, ${bench.device}, ${bench.date.slice(0, 10)}, each op over all layers in turn, ${link(path)}.\nA token without choosing it takes ${whole}.`;
}

function generation(models: readonly string[]): string {
  const rows = models.flatMap((model) => {
    const { bench } = sampleBench(model);
    return bench.results.map(({ texts, temperature, topK, topP, tokensPerSecondOfText, ofBound }) => [
      model,
      String(texts),
      [`temperature ${temperature}`, ...(topK ? [`top-k ${topK}`] : []), ...(topP ? [`top-p ${topP}`] : [])].join(', '),
      whole(tokensPerSecondOfText[2]!),
      whole(texts * tokensPerSecondOfText[2]!),
      percent(ofBound),
    ]);
  });
  const { bench } = sampleBench(models[0]!);
  const bounds = models.map((model) => {
    const { boundTokensPerSecond, tokens } = sampleBench(model).bench;
    return `${whole(boundTokensPerSecond)} tokens/s for ${model} (texts of ${tokens} tokens)`;
  });
  const head = ['model', 'texts', 'choice', 'tokens/s per text', 'tokens/s in total', 'of the bound'];
  return `${table(head, rows, 3)}\n\nMedian of five. The bound of one text: every weight read once per token at the rate of a copy, ${(bench.copyBytesPerSecond / 1e12).toFixed(2)} TB/s: ${bounds.join(', ')}.\n${bench.dtype}, ${bench.device}, ${bench.date.slice(0, 10)}, \`bench --generate\`, ${models.map((model) => link(sampleBench(model).path)).join(', ')}.`;
}

const whole = (value: number): string => Math.round(value).toLocaleString('en-US');

/** The README's bullet "Fast". */
function headline(): string {
  const { tokensPerSecond } = readJson<Bench>(hopper).step;
  const times = (peer: string): string => /\((.*) x\)/.exec(peer)![1]!;
  const [llmc, pytorch] = [llmcBeside, pytorchBeside].map((beside) =>
    times(beside({ model: 'd12', batch: 64, sequence: 1024 })),
  );
  return `- **Fast.** One H100 trains GPT-2 124M at ${whole(tokensPerSecond.median)} tokens/s: ${llmc} times llm.c with cuDNN, ${pytorch} times compiled PyTorch\n  ([conditions](#speed-on-one-h100)).`;
}

/** README's table of speeds, and the other figures measured on an H100. */
function speed(): string {
  const peers = ['llm.c, cuDNN', 'PyTorch 2.11, compiled, cuDNN'];
  const head = ['model', 'batch x sequence', 'tokens/s', ...peers, 'device memory'];
  const { date, device, firstStepMs } = hopperBench;
  const { saves, viewers } = h100Runs;
  const [d12, d48] = ['d12', 'd48'].map((model) => sampleBench(model).bench.results[0]!.tokensPerSecondOfText[2]!);
  const [least, most] = [Math.min(...saves.delayMs), Math.max(...saves.delayMs)];
  const notes = [
    `${date.slice(0, 10)}, ${device.device} at its power limit, \`scripts/bench-gpu benchmarks/h100\`, all sizes in one session on one GPU.`,
    'In brackets: our tokens/s divided by theirs, both on the same GPU in the same session; it can differ from the ratio of the two',
    'columns. llm.c alternated with ours (`scripts/bench-llmc.ts`, the faster of two settings). PyTorch and ours at batch 64, 4 and',
    '128 x 512 were compared the day before on another GPU.',
    '',
    `- Other GPUs run the portable kernels. On this H100 (\`GPT2_KERNELS=portable\`) they reach ${whole(readJson<Bench>(portable).step.tokensPerSecond.median)} tokens/s at d12 with batch 64.`,
    `- At that size the first step ends ${(firstStepMs / 1000).toFixed(1)} s after the program starts.`,
    `- Saving ${(saves.checkpointBytes / 1e9).toFixed(1)} GB pauses training for ${least.toFixed(0)} to ${most.toFixed(0)} ms.`,
    `- ${viewers.viewers} viewers of the live page do not slow a step measurably (${viewers.ratio.toFixed(3)} times its time without them).`,
    `- \`sample\` generates ${whole(d12!)} tokens/s of one text with d12, ${whole(d48!)} with d48.`,
  ];
  return `${table(head, sizeRows(), 2)}\n\n${notes.join('\n')}`;
}

/** The figures of docs/text.md. */
function preproSpeed(): string {
  const rows = rowsOf('benchmarks/prepro.md');
  const of = (beginning: string) => pick(rows, beginning, ([first]) => first!, 'benchmarks/prepro.md');
  const [, rate, perCpu, , memory] = of('2 GB, 4 workers');
  return `2 GB of text: ${rate} tokens/s on 4 threads, ${memory} of memory at the peak. A second of CPU time, over all threads, encodes ${perCpu} tokens;\nPython's tiktoken ${of("2 GB, Python's tiktoken, one core")[2]}.`;
}

const roomRows = Object.entries(rooms).map(([name, { purpose }]) => [`\`src/${name}\``, purpose]);
const roomOrder = Object.entries(rooms).map(([name, { imports }]) =>
  imports.length > 0 ? `${name} (${imports.join(', ')})` : name,
);

const kinds: Readonly<Record<string, (names: readonly string[]) => string>> = {
  rooms: () => table(['room', 'contents'], roomRows, 2),
  order: () => roomOrder.join(', '),
  // Tables from cuda/gpt2.h.
  dtypes,
  'step-block': stepBlock,
  // Ops of a step by name, with their fraction of the bound: `ops` with Hopper's kernels, `portable` with the portable kernels.
  ops: (names) => ops(hopper, names),
  portable: (names) => ops(portable, names),
  // Our kernels compared with calls of other libraries, by name.
  peers,
  // Rows of tables of experiments, each by the beginning of its first cell.
  tried: (names) => tried('benchmarks/h100.md', ['change', 'before', 'after', 'measured in'], names),
  'tried-portable': (names) => tried('benchmarks/h100-portable.md', ['change', 'effect'], names),
  // Functions of the CPU library in a training step, by name.
  cpu,
  families: stepByFamily,
  headline,
  speed,
  // Training steps on a CPU compared with PyTorch's, each row by the beginning of its first cell.
  'cpu-speed': (names) => {
    const head = ['step', 'fp32', 'bf16', 'PyTorch fp32', 'PyTorch bf16', 'PyTorch / ours, fp32', 'bf16'];
    return rowsBy('benchmarks/cpu.md', head, names);
  },
  prepro: preproSpeed,
  // The ops of decoding a token, for one model; the speed of generation, for several models.
  'generation-ops': generationOps,
  generation,
  options: recordedOptions,
  'start-options': startOptions,
  'train-options': trainOptions,
  // The course: a chapter's rungs; the best rung of each op; a training step with each set of kernels.
  course: courseChapter,
  'course-best': courseBest,
  'course-ladder': courseLadder,
  // The largest batches that fit on GPUs in bf16, by memory and model.
  fits,
  // The public functions and types.
  api: apiReference,
};

/** A page with the current figures of benchmarks/. @throws Error for a region that names unknown figures */
export function withFigures(page: string): string {
  const opened = page.match(/^<!-- figures:/gm)?.length ?? 0;
  let written = 0;
  const text = page.replace(
    /^<!-- figures: ([\w-]+)(?:: ([^>]*))? -->\n[\s\S]*?^<!-- end -->$/gm,
    (region, kind, list) => {
      const make = kinds[kind as string];
      if (!make) throw new Error(`there are no figures of kind "${kind}"; there are ${Object.keys(kinds).join(', ')}`);
      const names = ((list as string | undefined) ?? '').split(';').map((name) => name.trim());
      written++;
      return `${(region as string).split('\n', 1)[0]}\n${make(names)}\n<!-- end -->`;
    },
  );
  if (written !== opened) throw new Error(`${opened} regions of figures begin, ${written} end with "<!-- end -->"`);
  return text;
}

export const pages = (): string[] => [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync(new URL('docs/', root))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
];

export const coursePages = (): string[] =>
  readdirSync(new URL('kernels/course/', root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.md'))
    .map((path) => `kernels/course/${path}`);

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const name of [...pages(), ...coursePages()]) {
    const path = new URL(name, root);
    const before = readFileSync(path, 'utf8');
    const after = withFigures(before);
    if (after === before) continue;
    writeFileSync(path, after);
    console.log(`${name} has new figures`);
  }
}
