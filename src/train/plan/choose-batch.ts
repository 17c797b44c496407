// Chooses --batch auto: the largest micro-batch that fits in memory, with --recompute if nothing fits without it.
import { Gpt2Error } from '../../errors.ts';
import { type Recompute, recomputeNames } from '../../model/activations.ts';
import type { ModelConfig } from '../../model/config.ts';
import { enoughRows, memoryLimit } from '../../model/memory.ts';
import { Device, type DeviceOptions } from '../../native/device.ts';
import { divisors, largestBatch, type TrainingSizes } from './memory.ts';

export interface BatchChoice {
  readonly batch: number;
  readonly recompute: Recompute;
}

/**
 * Chooses the micro-batch for a step of `rows` sequences, or of one micro-batch if `rows` is undefined: then the largest that
 * still gains speed. Opens the device for a moment.
 * @param sizes without `recompute`, the one that recomputes least and fits is chosen
 * @throws Gpt2Error if not one sequence fits
 */
export function chooseBatch(
  device: DeviceOptions,
  config: ModelConfig,
  { maxMemory, ...sizes }: Omit<TrainingSizes, 'B' | 'parts'> & { readonly maxMemory: number | undefined },
): BatchChoice {
  const { T, rows, recompute } = sizes;
  using opened = Device.open(device);
  const most = enoughRows(opened, T);
  const batches =
    rows === undefined
      ? Array.from({ length: most }, (_, index) => index + 1)
      : divisors(rows).filter((batch) => batch <= most);
  const limit = memoryLimit(opened, maxMemory);
  for (const each of recompute === undefined ? recomputeNames : [recompute]) {
    const batch = largestBatch(opened, config, { ...sizes, recompute: each, batches, limit });
    if (batch !== undefined) return { batch, recompute: each };
  }
  throw new Gpt2Error(
    `--batch auto: not one sequence of --seq ${T} fits, ${limit.text}; take a shorter --seq or a smaller --model`,
  );
}
