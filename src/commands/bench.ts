// The command `bench`: measures training or text generation on this machine's device, and prints a table; --out also writes JSON.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Command } from 'commander';
import type { TrainOptions } from '../index.ts';
import {
  type BenchReport,
  benchGeneration,
  benchTraining,
  dataSheetFlops,
  formatBytes,
  formatCount,
  formatDuration,
  formatRate,
  formatTable,
  gpt2Error,
  leastMs,
  type OptionName,
  type OptionRow,
  optionNames,
  optionRows,
  presetNames,
  rateNote,
  readClocks,
  real,
  TemporaryFolder,
  whole,
} from '../program.ts';
import { attributeOf, count, numberOption, optionsFromFlags, tableOptions, trainArguments } from './option-of-table.ts';
import { notice, writeResult } from './output.ts';

const shared = optionNames.filter((name) => optionRows[name].bench);

/** By option, the columns of the options table that differ in `bench` from `train`: usage, help, type, default. */
const changes: Partial<Record<OptionName, Partial<OptionRow>>> = {
  model: { usage: '--model <NAME>', help: presetNames.join(', '), type: presetNames },
  batch: { usage: '--batch <B>', help: 'sequences per GPU in one forward and backward pass', type: whole(1, 65536) },
  totalBatch: { default: { text: 'batch x seq' } },
};

/** Keys of the flags that --generate refuses, because they affect only training. */
const ofTraining = [
  ...shared.filter((name) => optionRows[name].bench === 'training').map(attributeOf),
  ...['steps', 'warmupSeconds', 'ops', 'start'],
];

export function benchCommand(): Command {
  const generate = numberOption('--generate <N>', 'measure generating texts of N tokens instead of training', count);
  const command = new Command('bench')
    .description('Measure training on this device: step, ops, memory; or generation')
    .addHelpText(
      'after',
      `
Examples:
  npm run bench                                     the device's default model and batch
  npm run bench -- --batch 64 --out benchmarks/x.json
  npm run bench -- --model d12 --generate 512       tokens/s of sample: ops, positions, whole texts
`,
    );
  for (const option of shared.flatMap((name) => tableOptions(name, changes[name]))) command.addOption(option);
  command
    .addOption(numberOption('--steps <N>', 'number of measured steps', whole(1, 1_000_000), 50))
    .addOption(numberOption('--warmup-seconds <S>', 'seconds of warmup steps before', real(0, 3600), 10))
    .addOption(generate.conflicts(ofTraining))
    .option('--no-ops', 'skip the times of single ops')
    .option('--no-start', 'skip the time from the start of the program to its first step')
    .option('--out <FILE>', 'write all results as JSON');
  return command.action(async (flags: Record<string, unknown>) => {
    const options = optionsFromFlags(shared, flags);
    const out = flags.out as string | undefined;
    if (out !== undefined && !existsSync(dirname(resolve(out)))) {
      throw gpt2Error`--out ${out} needs the folder ${dirname(resolve(out))}, which does not exist: make it first`;
    }
    const command = `gpt2 ${process.argv.slice(2).join(' ')}`;
    const begun = { command, date: new Date().toISOString(), node: process.version };
    const write = (results: object) => {
      const text = JSON.stringify({ ...begun, ...results }, undefined, 2);
      if (out !== undefined) writeResult('results', out, `${text}\n`, '--out');
    };
    if (flags.generate !== undefined) {
      const print = (line: string) => process.stdout.write(`${line}\n`);
      write(await benchGeneration(options, flags.generate as number, print));
    } else write(await measureTraining(options, flags));
  });
}

async function measureTraining(options: TrainOptions, flags: Record<string, unknown>): Promise<object> {
  let clocks: string | null = null;
  const [steps, warmup] = [flags.steps as number, flags.warmupSeconds as number];
  const { report, data } = await benchTraining(options, {
    steps,
    warmup,
    ops: flags.ops !== false,
    onOpening: () =>
      notice(`warming up for ${formatDuration(warmup)} (--warmup-seconds), then measuring ${steps} steps (--steps)`),
    onMeasuring: (ms, gpu) => {
      const rest = [...(flags.ops === false ? [] : ['single ops']), "the device's rates"].join(' and ');
      notice(`measuring ${steps} steps: about ${formatDuration((steps * ms) / 1000)}; then ${rest}`);
      if (gpu !== undefined) clocks = readClocks(gpu);
    },
  });
  const firstStepMs = flags.start !== false && data ? await timeToFirstStep(options) : null;
  const all = { data: data ?? 'random tokens', clocks, firstStepMs, ...report };
  process.stdout.write(`${table(all)}\n`);
  return all;
}

/** Milliseconds from the start of a `train` process to the end of its first step; the faster of two runs. */
async function timeToFirstStep(options: TrainOptions): Promise<number> {
  using folder = new TemporaryFolder('bench');
  const once = (name: string): Promise<number> =>
    new Promise((done, failed) => {
      const started = performance.now();
      const run: TrainOptions = { steps: 1000, valEvery: 0, sampleEvery: 0, json: true, out: join(folder.path, name) };
      const args = trainArguments({ ...options, ...run });
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      let text = '';
      child.stdout.on('data', (part: Buffer) => {
        text += part;
        if (!text.includes('"event":"train"')) return;
        done(performance.now() - started);
        child.kill('SIGKILL');
      });
      child.on('error', failed);
      child.on('exit', (code) => failed(gpt2Error`train ended with exit code ${code} before its first step`));
    });
  const first = await once('first');
  // Take the faster run: the first may have read files from the disk that are cached for the second.
  return Math.min(first, await once('second'));
}

type Measured = BenchReport & { clocks: string | null; data: string; firstStepMs: number | null };

const percent = (part: number, whole: number): string => `${((100 * part) / whole).toFixed(1)}%`;

/** The difference of two byte counts in percent of `planned`: "3.1% more", "70.6% less". */
const difference = (used: number, planned: number): string =>
  `${percent(Math.abs(used - planned), planned)} ${used < planned ? 'less' : 'more'}`;

/** Measured memory (bytes) compared with the planned bytes: "driver counts 24.1 GiB (3.1% more)". */
export function counted(library: BenchReport['device']['library'], used: number, planned: number): string {
  const who = library === 'cpu' ? 'process' : 'driver';
  if (used <= 0) return `${who} counts no more than before: other memory was freed meanwhile`;
  return `${who} counts ${formatBytes(used)} (${difference(used, planned)})`;
}

/** Formats operations per second in TFLOP/s: one decimal; below 1 TFLOP/s (a CPU) two significant digits. */
const teraflops = (rate: number): string => (rate < 1e12 ? (rate / 1e12).toPrecision(2) : (rate / 1e12).toFixed(1));

function table(all: Measured): string {
  const { device, step, peaks, memory, ops } = all;
  const rate = step.tokensPerSecond.median * all.flopsPerToken;
  const sheet = dataSheetFlops(device.device, all.dtype);
  const energy = step.tokensPerJoule;
  const figures = {
    'tokens/s': `${formatCount(Math.round(step.tokensPerSecond.median))} (median; ${formatCount(Math.round(step.tokensPerSecond.p95))} at the 95th percentile of step times)`,
    step: `${step.ms.median.toFixed(3)} ms median, ${step.ms.p95.toFixed(3)} p95, ${step.ms.least.toFixed(3)} to ${step.ms.most.toFixed(3)}`,
    host: `${step.hostMs.toFixed(3)} ms a step enqueuing work, ${percent(step.hostMs, step.ms.median)} of the step`,
    rate: `${teraflops(rate)} TFLOP/s = tokens/s x ${(all.flopsPerToken / 1e6).toFixed(1)} MFLOP a token (6 x weights in matmuls + 6 x layers x T x channels)`,
    energy: energy && `${energy.toFixed(1)} tokens/J: ${step.joules!.toFixed(2)} J a step, by the GPU's counter`,
    MFU: sheet && `${percent(rate, sheet)} of the data sheet's ${sheet / 1e12} TFLOP/s${rateNote(all.dtype)}`,
    limits: `copy ${(peaks.copyBytesPerSecond / 1e9).toFixed(0)} GB/s; our matmul of ${peaks.matmulSize}^3 ${teraflops(peaks.matmulFlopsPerSecond)} TFLOP/s${peaks.fp8FlopsPerSecond === undefined ? '' : `, in FP8 ${teraflops(peaks.fp8FlopsPerSecond)}`}`,
    'first step': all.firstStepMs && `${all.firstStepMs.toFixed(0)} ms after the start of the program`,
    memory: `planned ${formatBytes(memory.plannedTotal)}, ${counted(device.library, memory.used, memory.plannedTotal)}${device.library === 'cpu' ? '' : `; in use before: ${formatBytes(memory.before)}`}`,
  };
  const lines = [
    `${all.config.layers} layers, ${all.config.channels} channels, ${formatCount(all.parameters)} parameters, ${all.dtype}, batch ${all.batch} x ${all.sequence} x ${all.accumulation}, on ${device.device} (${device.codePath}); ${all.data}`,
    ...(all.clocks ? [`while measuring: ${all.clocks}`] : []),
    '',
    ...Object.entries(figures).flatMap(([name, text]) => (text ? [`${name.padEnd(13)} ${text}`] : [])),
    ...Object.entries(memory.planned).map(([kind, bytes]) => `  ${kind.padEnd(21)} ${formatBytes(bytes)}`),
  ];
  if (ops.length === 0) return lines.join('\n');
  const rows = ops.map(({ name, calls, ms, flops: work, fp8Flops, bytes }) => [
    ...[name, String(calls), ms.toFixed(4), (ms * calls).toFixed(3), percent(ms * calls, step.ms.median)],
    ...[work > 0 ? formatRate(work / ms / 1e9) : '', bytes > 0 ? (bytes / ms / 1e6).toFixed(0) : ''],
    bytes > 0 ? percent(leastMs(peaks, { flops: work, fp8Flops, bytes }), ms) : '',
  ]);
  const sum = ops.reduce((total, { ms, calls }) => total + ms * calls, 0);
  const head = ['op', 'calls', 'ms', 'total', 'share', 'TFLOP/s', 'GB/s', 'of limit'];
  lines.push('', formatTable([head, ...rows, ['sum', '', '', sum.toFixed(3), percent(sum, step.ms.median)]]));
  const times = peaks.waits ? 'the sum of two times' : 'the longer of two times';
  const note = peaks.waits ? '; data in the caches are read faster' : '';
  lines.push(`limit: ${times}: operations at the rate of our matmul, bytes (each once) at that of a copy${note}`);
  return lines.join('\n');
}
