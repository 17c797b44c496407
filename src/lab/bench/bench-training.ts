// Prepares `gpt2 bench`: fills in default options and opens the data. bench.ts and generation.ts measure.
import { existsSync } from 'node:fs';
import { UsageError } from '../../base/errors.ts';
import { openLoader } from '../../data/batches/loader.ts';
import { findShards } from '../../data/datasets/find-shards.ts';
import { presetConfig, presetNames } from '../../model/config.ts';
import { openEnergyCounter } from '../../native/gpu-energy.ts';
import { selectDevice } from '../../native/select-device.ts';
import { loadFolders } from '../../ops/kernels/card-hash.ts';
import { chooseOptimizer } from '../../optimizer/choose.ts';
import { completeOptions, freezeOptions, modelOf } from '../../options/complete-options.ts';
import { resolveSources } from '../../options/sources.ts';
import { optionTable, type TrainOptions } from '../../options/table.ts';
import { toolsName } from '../../report/machine-load.ts';
import { type BenchOptions, bench } from './bench.ts';
import { measureGeneration } from './generation.ts';

interface BenchSettings extends Pick<BenchOptions, 'steps' | 'warmup' | 'ops'> {
  /** Called when options and data are checked, before the device is opened. */
  readonly onOpening?: () => void;
  /** Called at the first measured step. `stepMs`: mean of the warmup steps; `gpu`: name for nvidia-smi, undefined on a CPU. */
  readonly onMeasuring?: (stepMs: number, gpu: string | undefined) => void;
}

/** Completes the options, and selects the device and the model. @throws UsageError for a value that bench does not support */
function benchOptions(asked: TrainOptions) {
  const { kind, index } = selectDevice(asked.device ?? 'auto');
  if (asked.model !== undefined && !presetConfig(asked.model)) {
    throw new UsageError(`bench takes one of ${presetNames.join(', ')} for --model, not ${asked.model}`);
  }
  if (asked.batch === 'auto') throw new UsageError('bench takes a number for --batch, not auto');
  const { totalBatch, batch = optionTable.batch.default } = asked;
  // Batch and total batch of bench replace a recipe's: a step with the recipe's total batch would take minutes.
  const options = freezeOptions({ ...completeOptions({ ...resolveSources(asked).options, totalBatch }, kind), batch });
  return { kind, index, options, config: modelOf(options) };
}

/**
 * Benchmarks the training of a preset model. Only the options marked `bench` in the options table have an effect. Without a data
 * folder, tokens are random and the returned `data` is undefined.
 * @throws UsageError for invalid options; Gpt2Error if the data cannot be read, the device cannot be opened, or memory is too small
 */
export async function benchTraining(asked: TrainOptions, settings: BenchSettings) {
  const { kind, index, options, config } = benchOptions(asked);
  const { batch, sequence, accumulation, seed, order } = options;
  const data = asked.data ?? (existsSync(options.data) ? options.data : undefined);
  const { vocabularySize } = config;
  const open = (shards: readonly string[]) => openLoader({ shards, batch, sequence, order, seed, vocabularySize });
  const loader = data === undefined ? undefined : open(findShards(data, 'train'));
  try {
    settings.onOpening?.();
    const report = await bench({
      device: { kind, index, dtype: options.dtype, threads: options.threads },
      ...{ config, batch, sequence, accumulation },
      optimizer: chooseOptimizer(options),
      cards: await loadFolders(options.kernels),
      ...settings,
      joules: kind === 'cuda' ? openEnergyCounter(toolsName(index)) : undefined,
      onMeasuring: (ms) => settings.onMeasuring?.(ms, kind === 'cuda' ? toolsName(index) : undefined),
      nextBatch: loader && (() => loader.next()),
    });
    return { report, data };
  } finally {
    loader?.close();
  }
}

/**
 * Benchmarks text generation: `tokens` tokens for each text. Only the options of model, device and dtype have an effect.
 * @throws as `benchTraining`
 */
export async function benchGeneration(asked: TrainOptions, tokens: number, onLine: (line: string) => void) {
  const { kind, index, options, config } = benchOptions(asked);
  const device = { kind, index, dtype: options.dtype, threads: options.threads };
  return { model: options.model, ...(await measureGeneration(device, { config, tokens }, onLine)) };
}
