// Decides before allocation whether a model for inference fits the device, and in which batch.
import { gpt2Error, usageError, words } from '../../base/errors.ts';
import type { ModelConfig } from '../../model/config.ts';
import { enoughRows, gib, inferencePlan, type MemoryLimit, memoryLimit, neededFor } from '../../model/memory.ts';
import type { Device } from '../../native/device.ts';
import type { LoadedCard } from '../../ops/kernels/kernel-card.ts';

interface FitOptions {
  readonly T: number;
  /** Most GiB to use; undefined: all free memory. */
  readonly maxMemory?: number;
  /** Kernels that replace ops. Default none. */
  readonly cards?: readonly LoadedCard[];
}

/** @throws UsageError if a sequence is over the model's context */
export function checkSequence(sequence: number, { context }: ModelConfig): void {
  if (sequence <= context) return;
  throw usageError`--seq ${sequence} is over the model's context of ${context} positions; take a shorter --seq`;
}

/** The largest batch that fits and is still faster than a smaller one. @throws Gpt2Error if not even one sequence fits */
export function chooseInferenceBatch(device: Device, config: ModelConfig, { maxMemory, ...sizes }: FitOptions): number {
  const limit = memoryLimit(device, maxMemory);
  const batch = largestFitting(device, config, { ...sizes, limit, most: enoughRows(device, sizes.T) });
  if (batch > 0) return batch;
  throw gpt2Error`--batch auto: not one sequence of --seq ${sizes.T} fits, ${limit.text}; ${lessThanOne(limit)}`;
}

/** @throws Gpt2Error if there is too little memory; it names the need, the limit, and the batch that fits */
export function checkInferenceMemory(
  device: Device,
  config: ModelConfig,
  { B, maxMemory, ...sizes }: FitOptions & { readonly B: number },
): void {
  const limit = memoryLimit(device, maxMemory);
  const needed = neededFor(device, inferencePlan(device, config, { B, ...sizes }));
  if (needed <= limit.bytes) return;
  const fitting = largestFitting(device, config, { ...sizes, limit, most: B - 1 });
  throw gpt2Error`--batch ${B} with --seq ${sizes.T} needs ${gib(needed)} of memory, ${limit.text}; ${fitting > 0 ? words`--batch ${fitting} fits` : `no batch fits: ${lessThanOne(limit)}`}`;
}

const lessThanOne = ({ remedy }: MemoryLimit): string => words`take a shorter --seq, or ${remedy}`;

/** The largest batch up to `most` that fits, or 0: memory grows with the batch. */
function largestFitting(
  device: Device,
  config: ModelConfig,
  { limit, most, ...sizes }: Omit<FitOptions, 'maxMemory'> & { readonly limit: MemoryLimit; readonly most: number },
): number {
  let [fits, tooLarge] = [0, most + 1];
  while (tooLarge - fits > 1) {
    const B = Math.floor((fits + tooLarge) / 2);
    if (neededFor(device, inferencePlan(device, config, { B, ...sizes })) <= limit.bytes) fits = B;
    else tooLarge = B;
  }
  return fits;
}
