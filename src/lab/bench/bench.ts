// Benchmarks training on one device: whole steps, each op alone, the device's best rates, and the used memory compared with the plan.
import { median, quantile } from '../../base/quantile.ts';
import type { Batch } from '../../data/batches/loader.ts';
import type { ModelConfig } from '../../model/config.ts';
import { flopsPerToken } from '../../model/flops.ts';
import { initializeWeights } from '../../model/initialize.ts';
import { totalOf } from '../../model/memory.ts';
import { parameterCount } from '../../model/parameters.ts';
import { Device, type DeviceOptions } from '../../native/device.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';
import { reserveScratch, useCards } from '../../ops/kernels/use-cards.ts';
import { AdamW } from '../../optimizer/adamw.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { checkMemory, trainingPlan } from '../../train/plan/plan-memory.ts';
import type { BegunStep, Trainer } from '../../train/step/trainer.ts';
import { createTraining } from '../../train/step/training.ts';
import { timeOps } from './op-times.ts';
import { measurePeaks } from './peaks.ts';

export interface BenchOptions {
  readonly device: Omit<DeviceOptions, 'accumulates' | 'graphs'>;
  readonly config: ModelConfig;
  /** `batch`: B, sequences in a micro-batch. `sequence`: T, tokens in a sequence. `accumulation`: micro-batches in a step. */
  readonly batch: number;
  readonly sequence: number;
  readonly accumulation: number;
  /** Default: AdamW with a weight decay of 0.1. */
  readonly optimizer?: OptimizerChoice;
  /** The user's kernels that replace ops of the library. */
  readonly cards?: readonly LoadedCard[];
  /** Number of measured steps. `warmup`: seconds of steps before them. */
  readonly steps: number;
  readonly warmup: number;
  /** Whether to time each op alone, after the steps. */
  readonly ops: boolean;
  /** Returns the next micro-batch. A call may overwrite the arrays of the previous micro-batch. Default: random tokens. */
  readonly nextBatch?: (() => Batch) | undefined;
  /** Called when the measured steps begin, for example to read clocks. `stepMs`: mean milliseconds of the warmup steps. */
  readonly onMeasuring?: (stepMs: number) => void;
  /** Reads the device's energy counter in joules, which only grows and may lag by 0.1 s. */
  readonly joules?: () => number;
}

export type BenchReport = Awaited<ReturnType<typeof bench>>;

/** Returns a function that makes micro-batches of `count` random token ids, inputs and targets. */
export function randomBatches(count: number, { vocabularySize }: ModelConfig): () => Batch {
  const ids = () => Int32Array.from({ length: count }, () => Math.random() * vocabularySize);
  return () => ({ inputs: ids(), targets: ids() });
}

/** Runs the whole benchmark of one device. @throws Gpt2Error if the device cannot be opened or has too little memory */
export async function bench(options: BenchOptions) {
  const training = await measureTraining(options);
  // Open the device again: the model's memory is free now, so the large arrays for the best rates fit.
  using device = Device.open(options.device);
  return { ...training, peaks: await measurePeaks(device) };
}

/** Times training steps and, with `ops`, each op alone; compares the used memory with the planned memory. @throws as `bench` */
export async function measureTraining(options: BenchOptions) {
  const { config, batch, sequence, accumulation, optimizer = new AdamW({ weightDecay: 0.1 }) } = options;
  const nextBatch = options.nextBatch ?? randomBatches(batch * sequence, config);
  using device = Device.open({ ...options.device, accumulates: accumulation > 1 });
  const opened = device.memory();
  const resident = process.memoryUsage.rss();
  const isCpu = device.description.library === 'cpu';
  const { cards = [] } = options;
  await useCards(device, cards);
  const sizes = { B: batch, T: sequence, rows: batch * accumulation, optimizer, cards };
  checkMemory(device, config, { ...sizes, hasRecompute: false });
  reserveScratch(device, trainingPlan(device, config, sizes));
  const { model, trainer } = createTraining(device, config, sizes);
  initializeWeights(model, 42);
  const step = await timeSteps(trainer, { ...options, nextBatch });
  const planned = Object.fromEntries(device.allocated);
  const memory = {
    /** Planned bytes, by kind of memory. */
    planned,
    plannedTotal: totalOf(device.allocated),
    /** Bytes used since the device was opened. GPU: the driver's count. CPU: this process only, because other programs use memory too. */
    used: isCpu ? process.memoryUsage.rss() - resident : opened.available - device.memory().available,
    /** Bytes in use when the device had just been opened: by its context and by other programs. */
    before: opened.total - opened.available,
  };
  return {
    device: device.description,
    dtype: device.dtype,
    ...{ config, parameters: parameterCount(config), batch, sequence, accumulation, step },
    /** Floating-point operations per token, forward and backward (src/model/flops.ts). */
    flopsPerToken: flopsPerToken(config, sequence),
    memory,
    ops: options.ops ? await timeOps(trainer, nextBatch) : [],
  };
}

async function timeSteps(trainer: Trainer, options: BenchOptions & { readonly nextBatch: () => Batch }) {
  const { steps, warmup, nextBatch, batch, sequence, accumulation, joules } = options;
  const ms: number[] = [];
  const host: number[] = [];
  let loss = Number.NaN;
  let before: BegunStep | undefined;
  let lastEnd = 0;
  let joulesBefore: number | undefined;
  const started = performance.now();
  let measureFrom: number | undefined;
  for (let index = 0; measureFrom === undefined || index < measureFrom + steps + 1; index++) {
    if (measureFrom === undefined && index >= 2 && performance.now() - started >= warmup * 1000) {
      measureFrom = index;
      options.onMeasuring?.((performance.now() - started) / index);
    }
    const begun = await trainer.begin(index, 1e-4, nextBatch);
    if (before) {
      loss = (await before.finished()).loss;
      const now = performance.now();
      // The step in `before` has just ended. The host runs one step ahead, so the previous iteration enqueued that step.
      if (measureFrom !== undefined && index > measureFrom) {
        ms.push(now - lastEnd);
        host.push(begun.hostMilliseconds);
      }
      lastEnd = now;
      if (index === measureFrom) joulesBefore = joules?.();
    }
    before = begun;
  }
  const joulesPerStep = joulesBefore === undefined ? undefined : (joules!() - joulesBefore) / steps;
  await before!.finished();
  const tokens = batch * sequence * accumulation;
  return {
    tokensPerStep: tokens,
    tokensPerSecond: { median: (tokens * 1000) / median(ms), p95: (tokens * 1000) / quantile(ms, 0.95) },
    ms: { median: median(ms), p95: quantile(ms, 0.95), least: Math.min(...ms), most: Math.max(...ms) },
    /** Median milliseconds in which the host enqueues a step; on a CPU, the time of the whole step. */
    hostMs: median(host),
    /** Mean joules that the device alone uses in a step; undefined if it has no energy counter. */
    joules: joulesPerStep,
    tokensPerJoule: joulesPerStep === undefined ? undefined : tokens / joulesPerStep,
    loss,
  };
}
