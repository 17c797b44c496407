// Memory planning before allocation: free memory of the device and the host, and the device memory that inference needs.
import { freemem, totalmem } from 'node:os';
import { words } from '../base/errors.ts';
import { absentDevice, plannedPath } from '../native/absent-device.ts';
import type { Device } from '../native/device.ts';
import { callCards } from '../ops/kernels/card-scratch.ts';
import type { LoadedCard } from '../ops/kernels/kernel-card.ts';
import type { Sizes } from './activation-tables.ts';
import type { ModelConfig } from './config.ts';
import { forward } from './forward.ts';
import { headForward } from './head.ts';
import { type CacheSizes, KeyValueCache } from './key-value-cache.ts';
import { createModel } from './model.ts';

/** The sequences of T tokens in a batch of 65,536 tokens on a GPU, 4096 on a CPU. A larger batch is hardly faster per token. */
export const enoughRows = ({ description }: Device, T: number): number =>
  Math.max(1, Math.floor((description.library === 'cuda' ? 65536 : 4096) / T));

/**
 * Bytes of device memory that a run may allocate, with a reason and advice for messages: all free memory, or the user's limit.
 * @param maxMemory the user's limit in GiB; undefined for none
 */
export function memoryLimit(device: Device, maxMemory: number | undefined) {
  const { available, total } = availableMemory(device);
  const allowed = maxMemory === undefined ? Number.POSITIVE_INFINITY : maxMemory * 2 ** 30;
  if (allowed < available) {
    return {
      bytes: allowed,
      text: words`--max-memory ${maxMemory} allows no more`,
      remedy: words`give a larger --max-memory`,
    };
  }
  const { library, codePath } = device.description;
  const isAbsent = codePath === plannedPath;
  return {
    bytes: available,
    text: `${gib(available)} of ${gib(total)} are free`,
    remedy: isAbsent
      ? words`a larger GPU in --for`
      : `end what else runs ${library === 'cuda' ? 'on the GPU' : 'here'}`,
  };
}

/** Free and total bytes of a device's memory; for a CPU, a container's limit counts. */
export function availableMemory(device: Device): { available: number; total: number } {
  return device.description.library === 'cpu' ? withinContainer(device.memory()) : device.memory();
}

export const hostMemory = () => withinContainer({ available: freemem(), total: totalmem() });

function withinContainer({ available, total }: { available: number; total: number }) {
  const allowed = process.constrainedMemory();
  if (allowed <= 0 || allowed >= total) return { available, total };
  return { available: Math.max(0, Math.min(available, allowed - process.memoryUsage.rss())), total: allowed };
}

export const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

type MemoryPlan = ReadonlyMap<string, number>;

export const totalOf = (plan: MemoryPlan): number => [...plan.values()].reduce((sum, bytes) => sum + bytes, 0);

/** Bytes that plans do not count: on a GPU, kernel code, recorded graphs, and the rounding up of allocations to pages. */
export const reserveOf = ({ description }: Device): number => (description.library === 'cuda' ? 384 * 2 ** 20 : 0);

/** Bytes that must be free on the device for a memory plan. */
export const neededFor = (device: Device, plan: MemoryPlan): number => totalOf(plan) + reserveOf(device);

/** Bytes of device memory that inference needs, by the names of allocations. Creates the model on a device that only counts bytes. */
export function inferencePlan(
  device: Device,
  config: ModelConfig,
  { B, T, cards = [], cache }: Sizes & { readonly cards?: readonly LoadedCard[]; readonly cache?: CacheSizes },
): MemoryPlan {
  const { dtype, description } = device;
  const absent = absentDevice({ kind: description.library, dtype }, { scratchOf: device });
  const model = createModel(absent, config, { B, T, purpose: 'inference' });
  if (cache) new KeyValueCache(model, cache);
  callCards(absent, cards, () => {
    const activations = model.activations.at(B, T);
    forward(model, activations);
    headForward(model, activations);
  });
  return absent.allocated;
}

export const upTo = (most: number): number[] => Array.from({ length: most }, (_, index) => index + 1);

/** The largest of the ascending `batches` that fits, by binary search, which assumes that smaller batches fit too; undefined if none. */
export function largestFitting(batches: readonly number[], fits: (batch: number) => boolean): number | undefined {
  let [fitting, end] = [0, batches.length];
  while (fitting < end) {
    const middle = Math.floor((fitting + end) / 2);
    if (fits(batches[middle]!)) fitting = middle + 1;
    else end = middle;
  }
  return batches[fitting - 1];
}
