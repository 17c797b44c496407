// How fast the CPU library trains: d12 with B=4, T=64, the sizes of llm.c's CPU program. Measures whole steps, the time in
// each op, the rate of the matmuls beside that of one large square matmul, and memory; writes JSON and a table in Markdown.
//
//   node --import tsx scripts/bench-cpu.ts [--llmc FOLDER] [--data FOLDER] [--out FILE]
//
// With --llmc, llm.c's program and this library are measured in turns, from the same weights and batches. FOLDER is
// llm.c's (github.com/karpathy/llm.c), where `make train_gpt2` made the program; the weights and shards that it reads are
// written there. The machine should do nothing else: the load that the benchmark found is written beside the figures.
import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import {
  AdamW,
  createModel,
  Device,
  findShards,
  initializeWeights,
  type Model,
  openLoader,
  presetConfig,
  Trainer,
} from '../src/index.ts';
import { paddedVocabularySize } from '../src/model/config.ts';
import { allocateTensor } from '../src/native/buffer.ts';
import { matmulForward, matmulScratch } from '../src/ops/ops.generated.ts';
import { packageRoot } from '../src/package-root.ts';

const B = 4;
const T = 64;
const preset = 'd12';
const config = presetConfig(preset)!;
const seed = 42;
const learningRate = 1e-4;
const rounds = 3;
/** Steps of each program in a round. The first warms up (threads, first touch of memory) and is not counted. */
const stepsPerRound = 10;
const profiledSteps = 10;
const square = 2048;
const squareRuns = 40;

const { values: options } = parseArgs({
  options: {
    llmc: { type: 'string' },
    data: { type: 'string', default: join(packageRoot, 'data', 'tinyshakespeare') },
    out: { type: 'string', default: join(packageRoot, 'benchmarks', 'cpu-d12-b4-t64.json') },
  },
});

interface Round {
  /** Of the counted steps, in milliseconds. */
  readonly ms: number[];
  readonly firstLoss: number;
  readonly peakMiB: number;
}

const quantile = (values: readonly number[], q: number): number => {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * q;
  const below = sorted[Math.floor(at)]!;
  return below + (sorted[Math.ceil(at)]! - below) * (at % 1);
};
const median = (values: readonly number[]): number => quantile(values, 0.5);
const sum = (values: Iterable<number>): number => [...values].reduce((total, value) => total + value, 0);
const round = (value: number, digits = 2): number => Number(value.toFixed(digits));
const mebi = (bytes: number): number => round(bytes / 2 ** 20, 1);

function summary(all: readonly Round[]) {
  const ms = all.flatMap((one) => one.ms);
  return {
    steps: ms.length,
    medianMs: round(median(ms)),
    minMs: round(Math.min(...ms)),
    p95Ms: round(quantile(ms, 0.95)),
    medianMsOfRounds: all.map((one) => round(median(one.ms))),
    tokensPerSecond: round((B * T * 1000) / median(ms), 1),
    firstLoss: round(all[0]!.firstLoss, 6),
    peakResidentMiB: round(Math.max(...all.map((one) => one.peakMiB)), 1),
  };
}

/** Steps of this library, in this process. */
function ourProgram(trainer: Trainer, next: Parameters<Trainer['step']>[2]) {
  let index = 0;
  const step = async () => {
    const begin = performance.now();
    const { loss } = await trainer.step(index++, learningRate, next);
    return { loss, ms: performance.now() - begin };
  };
  const measureRound = async (): Promise<Round> => {
    const first = await step();
    const ms: number[] = [];
    while (ms.length < stepsPerRound - 1) ms.push((await step()).ms);
    return { ms, firstLoss: first.loss, peakMiB: process.resourceUsage().maxRSS / 1024 };
  };
  return { step, measureRound };
}

/** Writes what llm.c's program reads: these weights in its version 3 checkpoint, and the shards where it looks for them. */
function prepareLlmc(folder: string, { config, masters }: Model, shards: readonly string[]): void {
  const target = join(folder, 'dev', 'data', 'tinyshakespeare');
  mkdirSync(target, { recursive: true });
  for (const path of shards) copyFileSync(path, join(target, basename(path)));

  const { context, vocabularySize, layers, heads, channels } = config;
  const header = new Int32Array(256);
  header.set([20240326, 3, context, vocabularySize, layers, heads, channels, paddedVocabularySize(config)]);
  const ofLayers = 'ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb fcprojw fcprojb'.split(' ');
  const perLayer = (name: string) => Array.from({ length: layers }, (_, layer) => `h.${layer}.${name}`);
  const file = openSync(join(folder, 'gpt2_124M.bin'), 'w');
  writeSync(file, header);
  for (const name of ['wte', 'wpe', ...ofLayers.flatMap(perLayer), 'lnfw', 'lnfb']) {
    const tensor = masters.get(name);
    // Piece by piece, so that a host copy of wte does not count in our own peak memory.
    const piece = 2 ** 20;
    for (let start = 0; start < tensor.count; start += piece) {
      writeSync(file, tensor.readInto(new Float32Array(Math.min(piece, tensor.count - start)), start));
    }
  }
  closeSync(file);
}

/** Runs llm.c's program until it has done a round's steps, then ends it: it would go on to 41, with samples between. */
async function measureLlmc(folder: string): Promise<Round> {
  // Its output goes to a pipe, so it must be told to write line by line. stdbuf becomes the program: the pid is its own.
  const child = spawn('stdbuf', ['-oL', './train_gpt2'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = new Promise((done) => child.once('close', done));
  const steps: { loss: number; ms: number }[] = [];
  let peakMiB = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^step \d+: train loss (\S+) \(took (\S+) ms\)/.exec(line);
    if (!match) continue;
    steps.push({ loss: Number(match[1]), ms: Number(match[2]) });
    if (steps.length < stepsPerRound) continue;
    const status = readFileSync(`/proc/${child.pid}/status`, 'utf8');
    peakMiB = Number(/VmHWM:\s*(\d+)/.exec(status)![1]) / 1024;
    child.kill();
    break;
  }
  await exited;
  if (steps.length < stepsPerRound) throw new Error(`${folder}/train_gpt2 ended after ${steps.length} steps`);
  return { ms: steps.slice(1).map(({ ms }) => ms), firstLoss: steps[0]!.loss, peakMiB };
}

/** Time in each of the library's functions over some steps. The CPU library returns when the work is done. */
async function profile(device: Device, step: () => Promise<{ ms: number }>) {
  const functions = new Map<string, { calls: number; ms: number; flops: number }>();
  const call = device.call.bind(device) as (name: string, args: object) => void;
  const timed = (name: string, args: { N?: number; C?: number; O?: number }) => {
    const row = functions.get(name) ?? { calls: 0, ms: 0, flops: 0 };
    functions.set(name, row);
    const begin = performance.now();
    call(name, args);
    row.ms += performance.now() - begin;
    row.calls++;
    if (name.startsWith('matmul')) row.flops += 2 * args.N! * args.C! * args.O!;
  };
  Object.assign(device, { call: timed });
  let total = 0;
  for (let i = 0; i < profiledSteps; i++) total += (await step()).ms;
  const inFunctions = sum([...functions.values()].map(({ ms }) => ms));
  const rows = [...functions].map(([name, { calls, ms, flops }]) => ({
    name,
    calls: calls / profiledSteps,
    ms: round(ms / profiledSteps, 3),
    share: round(ms / total, 4),
    gflops: flops === 0 ? undefined : round(flops / ms / 1e6, 1),
  }));
  rows.sort((a, b) => b.ms - a.ms);
  const matmuls = [...functions].filter(([name]) => name.startsWith('matmul')).map(([, row]) => row);
  const flops = sum(matmuls.map((row) => row.flops));
  return {
    meanStepMs: round(total / profiledSteps),
    outsideLibraryMs: round((total - inFunctions) / profiledSteps, 3),
    functions: rows,
    matmulGflop: round(flops / profiledSteps / 1e9, 3),
    matmulGflops: round(flops / sum(matmuls.map(({ ms }) => ms)) / 1e6, 1),
  };
}

/** The best rate of the library's own matmul on a square that leaves packing and edges no weight, in GFLOP/s. */
function squareMatmulGflops(): number {
  using device = Device.open({ kind: 'cpu' });
  device.reserveWorkspace(matmulScratch(device, { N: square, C: square, O: square, gradients: true }));
  const [out, input, weight] = ['out', 'input', 'weight'].map((name) =>
    allocateTensor(device, name, 'fp32', [square, square]),
  ) as [never, never, never];
  let best = 0;
  for (let i = 0; i < squareRuns; i++) {
    const begin = performance.now();
    matmulForward(device, { out, in: input, weight, bias: null });
    best = Math.max(best, (2 * square ** 3) / (performance.now() - begin) / 1e6);
  }
  return round(best, 1);
}

function provenance(device: Device) {
  return {
    date: new Date().toISOString(),
    command: ['node --import tsx scripts/bench-cpu.ts', ...process.argv.slice(2)].join(' '),
    commit: execFileSync('git', ['describe', '--always', '--dirty'], { cwd: packageRoot, encoding: 'utf8' }).trim(),
    cpu: cpus()[0]!.model,
    cores: availableParallelism(),
    memoryGiB: round(totalmem() / 2 ** 30, 1),
    node: process.version,
    codePath: device.description.codePath,
    threads: device.description.threads,
    loadBefore: loadavg().map((load) => round(load)),
  };
}

/** Which llm.c: its source's hash, and the compiler that the program itself names. */
function llmcProvenance(folder: string) {
  const program = readFileSync(join(folder, 'train_gpt2'), 'latin1');
  return {
    sourceSha256: createHash('sha256')
      .update(readFileSync(join(folder, 'train_gpt2.c')))
      .digest('hex'),
    compiler:
      /(?<=GCC: \([^)]*\) )[\d.]+|clang version [\d.]+/.exec(program)?.[0].replace(/^\d/, 'GCC $&') ?? 'unknown',
  };
}

async function main() {
  const llmc = options.llmc === undefined ? undefined : resolve(options.llmc);
  if (llmc && !existsSync(join(llmc, 'train_gpt2'))) throw new Error(`${llmc} has no train_gpt2: make it there first`);
  const shards = findShards(options.data, 'train');
  const residentBefore = process.memoryUsage().rss;
  using device = Device.open({ kind: 'cpu' });
  const machine = provenance(device);
  const model = createModel(device, config, { B, T, purpose: 'training' });
  initializeWeights(model, seed);
  if (llmc) prepareLlmc(llmc, model, [...shards, ...findShards(options.data, 'val')]);
  const loader = openLoader({
    shards,
    batch: B,
    sequence: T,
    order: 'llmc',
    seed,
    vocabularySize: config.vocabularySize,
  });
  const trainer = new Trainer(model, {
    batch: B,
    sequence: T,
    accumulation: 1,
    optimizer: new AdamW({ weightDecay: 0.1 }),
    gradientClip: 1,
  });
  const { step, measureRound } = ourProgram(trainer, () => loader.next());

  const ourRounds: Round[] = [];
  const llmcRounds: Round[] = [];
  for (let i = 0; i < rounds; i++) {
    ourRounds.push(await measureRound());
    if (llmc) llmcRounds.push(await measureLlmc(llmc));
  }
  const tensors = Object.fromEntries([...device.allocated].map(([name, bytes]) => [name, mebi(bytes)]));
  const memory = {
    residentBeforeMiB: mebi(residentBefore),
    peakResidentMiB: summary(ourRounds).peakResidentMiB,
    tensorsMiB: mebi(sum(device.allocated.values())),
    tensors,
  };
  const profiled = await profile(device, step);
  loader.close();
  device.close();
  const squareGflops = squareMatmulGflops();

  const ours = summary(ourRounds);
  const theirs = llmc ? { ...summary(llmcRounds), ...llmcProvenance(llmc) } : undefined;
  const result = {
    ...machine,
    loadAfter: loadavg().map((load) => round(load)),
    model: preset,
    B,
    T,
    ours,
    llmc: theirs,
    ratio: theirs && {
      ofMedians: round(theirs.medianMs / ours.medianMs, 3),
      ofRounds: theirs.medianMsOfRounds.map((ms, i) => round(ms / ours.medianMsOfRounds[i]!, 3)),
    },
    matmul: {
      gflopPerStep: profiled.matmulGflop,
      gflops: profiled.matmulGflops,
      squareSize: square,
      squareGflops,
      shareOfSquare: round(profiled.matmulGflops / squareGflops, 4),
      shareOfSquareOverStep: round(profiled.matmulGflop / (ours.medianMs / 1000) / squareGflops, 4),
    },
    profile: profiled,
    memory,
  };
  const json = resolve(options.out);
  mkdirSync(dirname(json), { recursive: true });
  writeFileSync(json, `${JSON.stringify(result, null, 2)}\n`);
  const text = markdown(result);
  writeFileSync(json.replace(/(\.json)?$/, '.md'), text);
  console.log(text);
  console.log(`written to ${relative(process.cwd(), json)}`);
}

type Result = ReturnType<typeof provenance> & {
  readonly loadAfter: number[];
  readonly ours: ReturnType<typeof summary>;
  readonly llmc?: (ReturnType<typeof summary> & ReturnType<typeof llmcProvenance>) | undefined;
  readonly ratio?: { readonly ofMedians: number; readonly ofRounds: number[] } | undefined;
  readonly matmul: Readonly<Record<'gflopPerStep' | 'gflops' | 'squareGflops' | 'shareOfSquare', number>> & {
    readonly shareOfSquareOverStep: number;
  };
  readonly profile: Awaited<ReturnType<typeof profile>>;
  readonly memory: {
    readonly residentBeforeMiB: number;
    readonly peakResidentMiB: number;
    readonly tensorsMiB: number;
    readonly tensors: Record<string, number>;
  };
};

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

/** A table as Markdown reads it: the first column to the left, the others to the right. */
function markdownTable([head, ...rows]: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
  return [line(head!), line(head!.map((_, column) => (column === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

function markdown(result: Result): string {
  const { ours, llmc, ratio, matmul, profile, memory } = result;
  const programs = llmc ? [ours, llmc] : [ours];
  const figures = (name: string, figure: (of: typeof ours) => string) => [name, ...programs.map(figure)];
  const comparison = markdownTable([
    ['training step', 'gpt2.ts', ...(llmc ? ['llm.c'] : [])],
    figures('median', (of) => `${of.medianMs.toFixed(1)} ms`),
    figures('minimum', (of) => `${of.minMs.toFixed(1)} ms`),
    figures('95th percentile', (of) => `${of.p95Ms.toFixed(1)} ms`),
    figures('median of each round', (of) => of.medianMsOfRounds.map((ms) => ms.toFixed(1)).join(', ')),
    figures('tokens per second', (of) => of.tokensPerSecond.toFixed(0)),
    figures('steps measured', (of) => String(of.steps)),
    figures('loss of the first step', (of) => of.firstLoss.toFixed(6)),
    figures('peak resident memory', (of) => `${of.peakResidentMiB.toFixed(0)} MiB`),
  ]);
  const ops = markdownTable([
    ['function', 'calls', 'ms per step', 'share', 'GFLOP/s'],
    ...profile.functions.map(({ name, calls, ms, share, gflops }) => [
      name,
      String(calls),
      ms.toFixed(2),
      percent(share),
      gflops?.toFixed(0) ?? '',
    ]),
    [
      'outside the library',
      '',
      profile.outsideLibraryMs.toFixed(2),
      percent(profile.outsideLibraryMs / profile.meanStepMs),
      '',
    ],
  ]);
  const compared =
    llmc && ratio
      ? `\nllm.c's step takes **${ratio.ofMedians.toFixed(2)}** times as long (${ratio.ofRounds.map((of) => of.toFixed(2)).join(', ')} in
the rounds). Both began from the same weights and read the same batches. Rounds alternate; the first step of each round
is not counted. Our step also computes the gradient norm and clips, which llm.c's CPU program does not do. llm.c was
compiled by ${llmc.compiler}; its train_gpt2.c has sha256 ${llmc.sourceSha256.slice(0, 16)}...\n`
      : '';
  return `# CPU training step, ${preset}, B=${B}, T=${T}

${result.cpu}, ${result.cores} cores, ${result.memoryGiB} GiB; code path ${result.codePath}, ${result.threads} threads; node ${result.node}.
Measured ${result.date} at commit ${result.commit}; load average before ${result.loadBefore.join(' ')}, after ${result.loadAfter.join(' ')}.

    ${result.command}

${comparison}
${compared}
## Time by function

Mean of ${profiledSteps} further steps, ${profile.meanStepMs.toFixed(1)} ms each.

${ops}

## Matmuls

A step has ${matmul.gflopPerStep.toFixed(1)} GFLOP of matmuls (2NCO operations for the sizes of each call). They run at ${matmul.gflops.toFixed(0)} GFLOP/s,
${percent(matmul.shareOfSquare)} of the ${matmul.squareGflops.toFixed(0)} GFLOP/s that the same matmul reaches on ${square} x ${square} x ${square} (best of ${squareRuns}; a
measured rate of this library, not the processor's peak). Over the whole step's time it is ${percent(matmul.shareOfSquareOverStep)}.

## Memory

Peak resident ${memory.peakResidentMiB.toFixed(0)} MiB, of which ${memory.residentBeforeMiB.toFixed(0)} MiB were in use before the device was opened. Allocated in the device:
${memory.tensorsMiB.toFixed(0)} MiB.

${markdownTable([['tensors', 'MiB'], ...Object.entries(memory.tensors).map(([name, size]) => [name, size.toFixed(1)])])}
`;
}

await main();
