// Measures training steps (with AdamW and clipping) and matmuls of this library and of PyTorch on a CPU, in turns; prints the tables
// of benchmarks/cpu.md. No other program should run. Pin the script to cores that share no execution units.
//
//   taskset -c 0,2 node --import tsx scripts/bench-cpu-pytorch.ts --threads 2 [--rows d12-4x64,laptop] [--rounds 5]
//                               [--dtypes fp32,bf16] [--modes eager,compiled] [--matmuls] [--python FILE]
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { packageRoot } from '../src/base/package-root.ts';
import { median } from '../src/base/quantile.ts';
import { AdamW, Device, initializeWeights, presetConfig } from '../src/index.ts';
import { randomBatches } from '../src/lab/bench/bench.ts';
import { allocateTensor } from '../src/native/tensor.ts';
import { matmulScratch } from '../src/ops/ops.generated.ts';
import { formatTable } from '../src/report/format-text.ts';
import { createTraining } from '../src/train/step/training.ts';
import { readFlags } from './flags.ts';

const [d12, d6] = [presetConfig('d12')!, presetConfig('d6')!];
/** The preset shakespeare-laptop. */
const laptop = { ...d12, layers: 4, channels: 128, heads: 4, context: 64, vocabularySize: 65 };
const rows = {
  'd12-4x64': { config: d12, B: 4, T: 64 },
  'd12-4x256': { config: d12, B: 4, T: 256 },
  'd12-1x1024': { config: d12, B: 1, T: 1024 },
  'd6-8x256': { config: d6, B: 8, T: 256 },
  laptop: { config: laptop, B: 12, T: 64 },
};
type Row = keyof typeof rows;
/** Rows x channels x outputs of matmuls: of d12 at 4 x 64 and 4 x 256, of d12's LM head at 4 x 64, of the MLPs of d6 and `laptop`. */
const sizesOfMatmuls = `256x768x2304 256x768x768 256x768x3072 256x3072x768
  1024x768x2304 1024x768x768 1024x768x3072 1024x3072x768
  256x768x50304 2048x384x1536 2048x1536x384 768x128x512 768x512x128`;
const matmuls = sizesOfMatmuls.split(/\s+/).map((size) => size.split('x').map(Number) as [number, number, number]);

const list = <T extends string>(names: string) => names.split(',').filter(Boolean) as T[];
const { threads, rounds, ...flags } = readFlags({
  ...{ threads: 2, rows: Object.keys(rows).join(','), rounds: 5, dtypes: 'fp32,bf16', modes: 'eager', matmuls: false },
  python: 'python3',
});
const [dtypes, modes] = [list<'fp32' | 'bf16'>(flags.dtypes), list(flags.modes)];

type Measure = (repeats: number) => Promise<number>;

/** Arguments of the PyTorch process. It reads lines, each with a step or a matmul, and answers each with the measured milliseconds. */
const server = [join(packageRoot, 'scripts', 'bench-pytorch.py'), '--serve', `${threads}`];
const pytorch = spawn(flags.python, server, { stdio: ['pipe', 'pipe', 'inherit'] });
const answers = createInterface(pytorch.stdout)[Symbol.asyncIterator]();
const ask =
  (...words: readonly (string | number)[]): Measure =>
  async (repeats) => {
    pytorch.stdin.write(`${[repeats, ...words].join(' ')}\n`);
    return Number((await answers.next()).value);
  };

/** Pause before each measurement, until the previous program's threads stop spinning for work (OpenMP's threads: 16 ms on a Xeon). */
const spinMs = 50;

/** Runs the programs in turns. @returns for each program the milliseconds of each round, without a warmup round */
async function inTurns(programs: readonly Measure[], repeats: number): Promise<number[][]> {
  const ms = programs.map((): number[] => []);
  for (let round = -1; round < rounds; round++) {
    for (const [index, measure] of programs.entries()) {
      await setTimeout(spinMs);
      const time = await measure(repeats);
      if (round >= 0) ms[index]!.push(time);
    }
  }
  return ms;
}

const timed = async (work: () => unknown, repeats: number): Promise<number> => {
  const begin = performance.now();
  for (let repeat = 0; repeat < repeats; repeat++) await work();
  return (performance.now() - begin) / repeats;
};

const spread = (ms: readonly number[]) => {
  const [least, middle, most] = [Math.min(...ms), median(ms), Math.max(...ms)].map((each) => each.toPrecision(4));
  return `${middle} (${least} to ${most})`;
};

async function stepsOf(name: Row): Promise<string[]> {
  const { config, B, T } = rows[name];
  const { layers, channels, heads, vocabularySize } = config;
  const sizes = [layers, channels, heads, vocabularySize === 50257 ? 50304 : vocabularySize, B, T];
  const devices = dtypes.map((dtype) => Device.open({ kind: 'cpu', dtype, threads }));
  const ours = devices.map((device): Measure => {
    const { model, trainer } = createTraining(device, config, { B, T, optimizer: new AdamW({ weightDecay: 0.1 }) });
    initializeWeights(model, 42);
    let index = 0;
    const step = () => trainer.step(index++, 1e-4, randomBatches(B * T, config));
    return (repeats) => timed(step, repeats);
  });
  const theirs = modes.flatMap((mode) => dtypes.map((dtype) => ask('step', mode, dtype, ...sizes)));
  const ms = await inTurns([...ours, ...theirs], name === 'laptop' ? 20 : 1);
  for (const device of devices) device.close();
  const medians = ms.map(median);
  const factors = dtypes.map((_, index) => {
    const best = Math.min(...modes.map((_, mode) => medians[(mode + 1) * dtypes.length + index]!));
    return (best / medians[index]!).toFixed(2);
  });
  const line = [name, ...ms.map(spread), ...factors];
  console.error(line.join('  '));
  return line;
}

/** Table rows with the GFLOP/s of a matmul, one for each of its three directions. */
async function matmulsOf([N, C, O]: [number, number, number]): Promise<string[][]> {
  const opened = dtypes.map((dtype) => {
    const device = Device.open({ kind: 'cpu', dtype, threads });
    device.reserveWorkspace(matmulScratch(device, { N, C, O, gradients: true }));
    const tensor = (...shape: number[]) => {
      const made = allocateTensor(device, 'operand', 'fp32', shape);
      made.write(new Float32Array(made.count).map(() => Math.random() - 0.5));
      return made.pointer;
    };
    const [inputs, weight, out, sizes] = [tensor(N, C), tensor(O, C), tensor(N, O), { N, C, O }];
    const forward = { out, pre: null, in: inputs, weight, bias: null, residual: null, ...sizes, activation: 0 };
    const backward = { din: inputs, dout: out, weight, pre: null, activated: null, ...sizes, activation: 0 };
    const gradient = { dweight: weight, dbias: null, dout: out, in: inputs, ...sizes, accumulate: 0 };
    const calls = {
      forward: () => device.call('matmulForward', forward),
      input: () => device.call('matmulBackwardInput', backward),
      weight: () => device.call('matmulBackwardWeight', gradient),
    };
    return { dtype, device, calls };
  });
  const flops = 2 * N * C * O;
  const lines = [];
  for (const direction of ['forward', 'input', 'weight'] as const) {
    const programs = opened.flatMap(({ dtype, calls }): Measure[] => [
      (repeats) => timed(calls[direction], repeats),
      ask('matmul', direction, dtype, N, C, O),
    ]);
    // 1e11 operations take 50 ms or more: after the pause a thread may wake on the caller's CPU and stay there for 10 ms.
    const ms = await inTurns(programs, Math.ceil(1e11 / flops));
    const rates = ms.map((each) => (flops / median(each) / 1e6).toFixed(0));
    lines.push([`${N} x ${C} x ${O} ${direction}`, ...rates]);
  }
  for (const { device } of opened) device.close();
  return lines;
}

const head = ['step', ...['ours', ...modes].flatMap((mode) => dtypes.map((dtype) => `${mode} ${dtype}`))];
const steps = [];
for (const name of list<Row>(flags.rows)) steps.push(await stepsOf(name));
const factors = dtypes.map((dtype) => `factor ${dtype}`);
console.log(`ms a step, ${threads} threads\n${formatTable([[...head, ...factors], ...steps])}`);
if (flags.matmuls) {
  const lines = [];
  for (const sizes of matmuls) lines.push(...(await matmulsOf(sizes)));
  const titles = ['rows x channels x outputs', ...dtypes.flatMap((dtype) => [`ours ${dtype}`, `oneDNN ${dtype}`])];
  console.log(`GFLOP/s\n${formatTable([titles, ...lines])}`);
}
pytorch.stdin.end();
