// Chooses for --batch auto: the largest micro-batch that fits in memory, and --recompute where nothing fits without it.
import { Gpt2Error } from '../../errors.ts';
import { type Recompute, recomputeNames } from '../../model/activations.ts';
import type { ModelConfig } from '../../model/config.ts';
import { enoughRows, memoryLimit } from '../../model/memory.ts';
import { Device, type DeviceOptions } from '../../native/device.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { divisors, largestBatch } from './memory.ts';

export interface BatchChoice {
  readonly batch: number;
  readonly recompute: Recompute;
}

/**
 * The micro-batch for a step of `rows` sequences; undefined: a step is one micro-batch, as large as it gains speed. Opens the
 * device for a moment.
 * @param recompute as given; undefined: as little as fits
 * @throws Gpt2Error if not even one sequence fits
 */
export function chooseBatch(
  device: DeviceOptions,
  config: ModelConfig,
  {
    T,
    optimizer,
    rows,
    recompute,
    samples,
    maxMemory,
    shares,
  }: {
    T: number;
    optimizer: OptimizerChoice;
    rows: number | undefined;
    recompute: Recompute | undefined;
    samples: boolean;
    maxMemory: number | undefined;
    shares: number;
  },
): BatchChoice {
  const kinds = recompute === undefined ? recomputeNames : [recompute];
  using opened = Device.open(device);
  const most = enoughRows(opened, T);
  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
  const batches = rows === undefined ? upTo(most) : divisors(rows).filter((batch) => batch <= most);
  const limit = memoryLimit(opened, maxMemory);
  for (const each of kinds) {
    const sizes = { T, optimizer, rows, recompute: each, samples, shares, batches, limit };
    const batch = largestBatch(opened, config, sizes);
    if (batch !== undefined) return { batch, recompute: each };
  }
  throw new Gpt2Error(
    `--batch auto: not one sequence of --seq ${T} fits, ${limit.text}; take a shorter --seq or a smaller --model`,
  );
}
