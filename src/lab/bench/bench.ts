// Measures training on a device: the whole step, its ops one by one, the device's best rates, and memory against the plan.

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
  /** Sequences in a micro-batch, tokens in a sequence, micro-batches in a step. */
  readonly batch: number;
  readonly sequence: number;
  readonly accumulation: number;
  /** Default AdamW. */
  readonly optimizer?: OptimizerChoice;
  /** Kernels that replace ops. */
  readonly cards?: readonly LoadedCard[];
  /** Number of measured steps, after `warmup` seconds of steps. */
  readonly steps: number;
  readonly warmup: number;
  /** Whether each op is timed by itself. */
  readonly ops: boolean;
  /** The next micro-batch; its arrays may be reused. Default: random tokens. */
  readonly nextBatch?: (() => Batch) | undefined;
  /** Called when the measured steps begin, so that the caller can read clocks. `stepMs`: mean milliseconds of the steps before. */
  readonly onMeasuring?: (stepMs: number) => void;
  /** Joules that the device has used so far; its counter may lag a tenth of a second behind. */
  readonly joules?: () => number;
}

export type BenchReport = Awaited<ReturnType<typeof bench>>;

/** Micro-batches of `count` random tokens. */
export function randomBatches(count: number, { vocabularySize }: ModelConfig): () => Batch {
  const ids = () => Int32Array.from({ length: count }, () => Math.random() * vocabularySize);
  return () => ({ inputs: ids(), targets: ids() });
}

/** Runs the whole benchmark. @throws Gpt2Error if the device cannot be opened or has too little memory */
export async function bench(options: BenchOptions) {
  const training = await measureTraining(options);
  // The model's memory is free again for the large arrays of these measurements.
  using device = Device.open(options.device);
  return { ...training, peaks: await measurePeaks(device) };
}

/** Times steps and, if asked, their ops; compares memory with its plan. @throws as `bench` */
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
    /** Bytes planned, by kind. */
    planned,
    plannedTotal: totalOf(device.allocated),
    /**
     * Memory used since the context was opened, after all steps: the driver's count on a GPU, this process's on a CPU, because
     * other programs change what is free there.
     */
    used: isCpu ? process.memoryUsage.rss() - resident : opened.available - device.memory().available,
    /** Memory in use right after the context was opened, by the context and by other programs. */
    before: opened.total - opened.available,
  };
  return {
    device: device.description,
    dtype: device.dtype,
    ...{ config, parameters: parameterCount(config), batch, sequence, accumulation, step },
    /** Operations per token, forward and backward; see model/flops.ts. */
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
      // The step that ended here was enqueued one turn ago.
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
    /** Median milliseconds in which the host enqueues a step; on the CPU the whole step. */
    hostMs: median(host),
    /** Mean joules of a step, the device alone; undefined if the device does not count energy. */
    joules: joulesPerStep,
    tokensPerJoule: joulesPerStep === undefined ? undefined : tokens / joulesPerStep,
    loss,
  };
}
