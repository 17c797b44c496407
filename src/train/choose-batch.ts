// --batch auto: the largest micro-batch that memory has room for, and --recompute where nothing fits without it.
import { Gpt2Error } from '../errors.ts';
import { type Recompute, recomputeNames } from '../model/activations.ts';
import type { ModelConfig } from '../model/config.ts';
import { enoughRows, type MemoryLimit, memoryLimit } from '../model/memory.ts';
import { Device, type DeviceOptions } from '../native/device.ts';
import { divisors, largestBatch } from './memory.ts';

export interface BatchChoice {
  readonly batch: number;
  readonly recompute: Recompute;
}

/**
 * Picks the micro-batch for a step of `rows` sequences, or where a step is one micro-batch (undefined) of as many as are
 * worth it. Opens the device for a moment: what gradients take depends on whether they accumulate.
 * @param recompute what a user asked for; undefined: whatever is needed
 * @throws Gpt2Error if not even one sequence fits
 */
export function chooseBatch(
  device: DeviceOptions,
  config: ModelConfig,
  {
    T,
    rows,
    recompute,
    samples,
    maxMemory,
    shares,
  }: {
    T: number;
    rows: number | undefined;
    recompute: Recompute | undefined;
    samples: boolean;
    maxMemory: number | undefined;
    shares: number;
  },
): BatchChoice {
  const kinds = recompute === undefined ? recomputeNames : [recompute];
  const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);
  const isWhole = (batch: number) => rows === undefined || batch === rows;
  let limit: MemoryLimit | undefined;
  /** The largest batch for each kind, of those in which a step is one micro-batch, or of the others. */
  const fitting = (accumulates: boolean): (number | undefined)[] => {
    if (rows === undefined && accumulates) return [];
    using opened = Device.open({ ...device, accumulates });
    const most = enoughRows(opened, T);
    const batches = (rows === undefined ? upTo(most) : divisors(rows)).filter(
      (batch) => batch <= most && isWhole(batch) !== accumulates,
    );
    const within = memoryLimit(opened, maxMemory);
    limit = within;
    return kinds.map((recompute) =>
      largestBatch(opened, config, { T, recompute, samples, shares, batches, limit: within }),
    );
  };
  // A step in one go takes less for its gradients, and is no smaller.
  const [inOneGo, inParts] = [fitting(false), fitting(true)];
  for (const [index, each] of kinds.entries()) {
    const batch = inOneGo[index] ?? inParts[index];
    if (batch !== undefined) return { batch, recompute: each };
  }
  throw new Gpt2Error(
    `--batch auto: not one sequence of --seq ${T} fits, ${limit?.text}; take a shorter --seq or a smaller --model`,
  );
}
