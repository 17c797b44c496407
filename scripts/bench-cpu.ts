// Measures how fast the CPU library trains d12 with B=4, T=64, the sizes of llm.c's CPU program: whole steps, the time in each op,
// the rate of the matmuls against the rate of one large square matmul (`measurePeaks`), and memory. Writes JSON.
//
//   node --import tsx scripts/bench-cpu.ts [--llmc FOLDER] [--data FOLDER] [--out FILE]
//
// With --llmc, llm.c's program and this library are measured in turns, from the same weights and batches. FOLDER is a clone of
// github.com/karpathy/llm.c in which `make train_gpt2` built the program; this script writes the program's weights and shards there.
// No other program should run: the result includes the machine's load before and after.
import { hash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { packageCommit, packageRoot } from '../src/base/package-root.ts';
import { median, quantile } from '../src/base/quantile.ts';
import { AdamW, Device, findShards, initializeWeights, type Model, openLoader, presetConfig } from '../src/index.ts';
import { measurePeaks } from '../src/lab/bench/peaks.ts';
import { type Parameter, realCount } from '../src/model/parameters.ts';
import { createTraining } from '../src/train/step/training.ts';
import { llmc } from '../src/weights/formats/llmc.ts';
import { readFlags } from './flags.ts';
import { type LlmcStep, runLlmc } from './llmc.ts';

const B = 4;
const T = 64;
const preset = 'd12';
const config = presetConfig(preset)!;
const seed = 42;
const learningRate = 1e-4;
const rounds = 3;
/** Steps of each program in a round. The first step is a warmup (threads, first touch of memory) and not counted. */
const stepsPerRound = 10;
const profiledSteps = 10;

const options = readFlags({
  llmc: '',
  data: join(packageRoot, 'data', 'tinyshakespeare'),
  out: join(packageRoot, 'benchmarks', 'cpu-d12-b4-t64.json'),
});

type Round = Awaited<ReturnType<typeof runLlmc>>;
type Step = () => Promise<LlmcStep>;

const sum = (values: Iterable<number>): number => [...values].reduce((total, value) => total + value, 0);
const round = (value: number, digits = 2): number => Number(value.toFixed(digits));
const mebi = (bytes: number): number => round(bytes / 2 ** 20, 1);

function summary(all: readonly Round[]) {
  const counted = all.map(({ steps }) => steps.slice(1).map(({ ms }) => ms));
  const ms = counted.flat();
  return {
    steps: ms.length,
    medianMs: round(median(ms)),
    minMs: round(Math.min(...ms)),
    p95Ms: round(quantile(ms, 0.95)),
    medianMsOfRounds: counted.map((one) => round(median(one))),
    tokensPerSecond: round((B * T * 1000) / median(ms), 1),
    firstLoss: round(all[0]!.steps[0]!.loss, 6),
    peakResidentMiB: round(Math.max(...all.map((one) => one.peakMiB)), 1),
  };
}

async function measureOurs(step: Step): Promise<Round> {
  const steps: LlmcStep[] = [];
  while (steps.length < stepsPerRound) steps.push(await step());
  return { steps, peakMiB: process.resourceUsage().maxRSS / 1024 };
}

/** Writes the inputs of llm.c's program into its folder: the model's weights in llm.c's format, and copies of the shards. */
function prepareLlmc(folder: string, { config, masters }: Model, shards: readonly string[]): void {
  const target = join(folder, 'dev', 'data', 'tinyshakespeare');
  mkdirSync(target, { recursive: true });
  for (const path of shards) copyFileSync(path, join(target, basename(path)));
  const read = (parameter: Parameter) =>
    masters.get(parameter.name).readInto(new Float32Array(realCount(parameter)), 0);
  llmc.write(join(folder, 'gpt2_124M.bin'), { model: config, read, [Symbol.dispose]: () => {} }, 'fp32');
}

/** Times each library function over `profiledSteps` steps, on the host: a function of the CPU library returns when its work is done. */
async function profile(device: Device, step: Step) {
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
  const sumOf = (field: 'ms' | 'flops', rows = [...functions.values()]) => sum(rows.map((row) => row[field]));
  const rows = [...functions].map(([name, { calls, ms, flops }]) => ({
    name,
    calls: calls / profiledSteps,
    ms: round(ms / profiledSteps, 3),
    share: round(ms / total, 4),
    gflops: flops === 0 ? undefined : round(flops / ms / 1e6, 1),
  }));
  rows.sort((a, b) => b.ms - a.ms);
  const matmuls = [...functions].filter(([name]) => name.startsWith('matmul')).map(([, row]) => row);
  return {
    meanStepMs: round(total / profiledSteps),
    outsideLibraryMs: round((total - sumOf('ms')) / profiledSteps, 3),
    functions: rows,
    matmulGflop: round(sumOf('flops') / profiledSteps / 1e9, 3),
    matmulGflops: round(sumOf('flops') / sumOf('ms', matmuls) / 1e6, 1),
  };
}

function provenance(device: Device) {
  return {
    date: new Date().toISOString(),
    command: ['node --import tsx scripts/bench-cpu.ts', ...process.argv.slice(2)].join(' '),
    commit: packageCommit(),
    cpu: cpus()[0]!.model,
    cores: availableParallelism(),
    memoryGiB: round(totalmem() / 2 ** 30, 1),
    node: process.version,
    codePath: device.description.codePath,
    threads: device.description.threads,
    loadBefore: loadavg().map((load) => round(load)),
  };
}

/** The hash of llm.c's source, and the compiler whose name the compiled program contains. */
function llmcProvenance(folder: string) {
  const program = readFileSync(join(folder, 'train_gpt2'), 'latin1');
  return {
    sourceSha256: hash('sha256', readFileSync(join(folder, 'train_gpt2.c'))),
    compiler:
      /(?<=GCC: \([^)]*\) )[\d.]+|clang version [\d.]+/.exec(program)?.[0].replace(/^\d/, 'GCC $&') ?? 'unknown',
  };
}

async function main() {
  const llmc = options.llmc && resolve(options.llmc);
  if (llmc && !existsSync(join(llmc, 'train_gpt2'))) throw new Error(`${llmc} has no train_gpt2: make it there first`);
  const shards = findShards(options.data, 'train');
  const residentBefore = process.memoryUsage().rss;
  using device = Device.open({ kind: 'cpu' });
  const machine = provenance(device);
  const optimizer = new AdamW({ weightDecay: 0.1 });
  const { model, trainer } = createTraining(device, config, { B, T, optimizer });
  initializeWeights(model, seed);
  if (llmc) prepareLlmc(llmc, model, [...shards, ...findShards(options.data, 'val')]);
  const { vocabularySize } = config;
  const loader = openLoader({ shards, batch: B, sequence: T, order: 'llmc', seed, vocabularySize });
  let index = 0;
  const step: Step = async () => {
    const begin = performance.now();
    const { loss } = await trainer.step(index++, learningRate, () => loader.next());
    return { loss, ms: performance.now() - begin };
  };
  const isEnough = ({ length }: readonly LlmcStep[]) => length === stepsPerRound;
  const ourRounds: Round[] = [];
  const llmcRounds: Round[] = [];
  for (let i = 0; i < rounds; i++) {
    ourRounds.push(await measureOurs(step));
    if (llmc) llmcRounds.push(await runLlmc('./train_gpt2', { cwd: llmc, isEnough }));
  }
  const allocated = [...device.allocated];
  const profiled = await profile(device, step);
  loader.close();
  const { matmulSize, matmulFlopsPerSecond } = await measurePeaks(device);
  const squareGflops = round(matmulFlopsPerSecond / 1e9, 1);

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
      squareSize: matmulSize,
      squareGflops,
      shareOfSquare: round(profiled.matmulGflops / squareGflops, 4),
      shareOfSquareOverStep: round(profiled.matmulGflop / (ours.medianMs / 1000) / squareGflops, 4),
    },
    profile: profiled,
    memory: {
      residentBeforeMiB: mebi(residentBefore),
      peakResidentMiB: ours.peakResidentMiB,
      tensorsMiB: mebi(sum(allocated.map(([, bytes]) => bytes))),
      tensors: Object.fromEntries(allocated.map(([name, bytes]) => [name, mebi(bytes)])),
    },
  };
  writeFileSync(options.out, `${JSON.stringify(result, null, 2)}\n`);
  const ofLlmc = theirs ? `, llm.c ${theirs.medianMs} ms` : '';
  console.log(`ours ${ours.medianMs} ms a step${ofLlmc}; written to ${options.out}`);
}

await main();
