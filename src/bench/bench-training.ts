// What the bench command asks for, in the terms of training's options: fills in defaults, opens the data, measures.
import { existsSync } from 'node:fs';
import { openLoader } from '../batches/loader.ts';
import { UsageError } from '../errors.ts';
import { toolsName } from '../live/machine-load.ts';
import { presetConfig, presetNames } from '../model/config.ts';
import { selectDevice } from '../native/select-device.ts';
import { completeOptions } from '../options/check.ts';
import { freezeOptions } from '../options/defaults.ts';
import { optionTable, type TrainOptions } from '../options/table.ts';
import { findShards } from '../shards/find.ts';
import { type BenchReport, bench } from './bench.ts';

export interface BenchSettings {
  /** Steps that are measured. */
  readonly steps: number;
  /** Seconds of steps before. */
  readonly warmup: number;
  /** Whether each op is timed by itself. */
  readonly ops: boolean;
  /** Called once the measured steps run, with the GPU's name to the driver's tool; undefined: it is no GPU that is measured. */
  readonly onMeasuring?: (gpu: string | undefined) => void;
}

/**
 * Measures the training of a preset with these options, of which those with `bench` in the table count. Where no data folder is
 * given and the default one does not exist, tokens are random and `data` is undefined.
 * @throws UsageError for options that cannot be, Gpt2Error for a data folder that cannot be read, a device that cannot be
 * opened or has too little memory
 */
export async function benchTraining(
  given: TrainOptions,
  settings: BenchSettings,
): Promise<{ report: BenchReport; data: string | undefined }> {
  const { kind, index } = selectDevice(given.device ?? 'auto');
  if (given.model !== undefined && !presetConfig(given.model)) {
    throw new UsageError(`--model takes ${presetNames.join(', ')} here, not ${given.model}`);
  }
  if (given.batch === 'auto') throw new UsageError('--batch takes a number here, not auto');
  const options = freezeOptions({ ...completeOptions(given, kind), batch: given.batch ?? optionTable.batch.default });
  const config = presetConfig(options.model)!;
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
    const report = await bench({
      device: { kind, index, dtype: options.dtype, threads: options.threads },
      ...{ config, batch, sequence, accumulation },
      ...settings,
      onMeasuring: () => settings.onMeasuring?.(kind === 'cuda' ? toolsName(index) : undefined),
      nextBatch: loader ? () => loader.next() : () => ({ inputs: random(), targets: random() }),
    });
    return { report, data };
  } finally {
    loader?.close();
  }
}
