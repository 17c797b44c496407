// Runs a benchmark by the options of training: fills in defaults, opens the data, measures.
import { existsSync } from 'node:fs';
import { UsageError } from '../../base/errors.ts';
import { openLoader } from '../../data/batches/loader.ts';
import { findShards } from '../../data/shards/find-shards.ts';
import { presetConfig, presetNames } from '../../model/config.ts';
import { openEnergyCounter } from '../../native/gpu-energy.ts';
import { selectDevice } from '../../native/select-device.ts';
import { loadFolders } from '../../ops/kernels/card-hash.ts';
import { chooseOptimizer } from '../../optimizer/choose.ts';
import { completeOptions, freezeOptions } from '../../options/complete-options.ts';
import { modelOf } from '../../options/model-of-options.ts';
import { resolveSources } from '../../options/sources.ts';
import { optionTable, type TrainOptions } from '../../options/table.ts';
import { toolsName } from '../../report/machine-load.ts';
import { type BenchOptions, type BenchReport, bench } from './bench.ts';
import { measureGeneration } from './generation.ts';

interface BenchSettings extends Pick<BenchOptions, 'steps' | 'warmup' | 'ops'> {
  /** Called when options and data are checked, before the device is opened. */
  readonly onOpening?: () => void;
  /** Called when the measured steps begin, with their time so far and the GPU's name for the driver's tool; undefined on a CPU. */
  readonly onMeasuring?: (stepMs: number, gpu: string | undefined) => void;
}

/** The options with their defaults, the device and the model. @throws UsageError for those that bench does not take */
function benchOptions(given: TrainOptions) {
  const { kind, index } = selectDevice(given.device ?? 'auto');
  if (given.model !== undefined && !presetConfig(given.model)) {
    throw new UsageError(`bench takes one of ${presetNames.join(', ')} for --model, not ${given.model}`);
  }
  if (given.batch === 'auto') throw new UsageError('bench takes a number for --batch, not auto');
  const { totalBatch, batch = optionTable.batch.default } = given;
  // A recipe's step would take minutes.
  const options = freezeOptions({ ...completeOptions({ ...resolveSources(given).options, totalBatch }, kind), batch });
  return { kind, index, options, config: modelOf(options) };
}

/**
 * Measures the training of a preset with these options; only those with `bench` in the table count. Without a data folder and a
 * default one, tokens are random and `data` is undefined.
 * @throws UsageError for invalid options; Gpt2Error if the data cannot be read, or the device does not open or has too little
 * memory
 */
export async function benchTraining(
  given: TrainOptions,
  settings: BenchSettings,
): Promise<{ report: BenchReport; data: string | undefined }> {
  const { kind, index, options, config } = benchOptions(given);
  const { batch, sequence, accumulation, seed, order } = options;
  const data = given.data ?? (existsSync(options.data) ? options.data : undefined);
  const loader =
    data === undefined
      ? undefined
      : openLoader({
          shards: findShards(data, 'train'),
          ...{ batch, sequence, order, seed, vocabularySize: config.vocabularySize },
        });
  const random = () => Int32Array.from({ length: batch * sequence }, () => Math.random() * config.vocabularySize);
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
      nextBatch: loader ? () => loader.next() : () => ({ inputs: random(), targets: random() }),
    });
    return { report, data };
  } finally {
    loader?.close();
  }
}

/**
 * Measures generation in texts of `tokens` tokens. Of the options those of the model, the device and the dtype count.
 * @throws as `benchTraining`
 */
export async function benchGeneration(given: TrainOptions, tokens: number, onLine: (line: string) => void) {
  const { kind, index, options, config } = benchOptions(given);
  const device = { kind, index, dtype: options.dtype, threads: options.threads };
  return { model: options.model, ...(await measureGeneration({ device, config, tokens }, onLine)) };
}
