// Plans memory before it is allocated: free memory of the device and the host, and the needs of inference.
import { freemem, totalmem } from 'node:os';
import { words } from '../base/errors.ts';
import type { Device } from '../native/device.ts';
import { cardScratch } from '../ops/kernels/card-scratch.ts';
import type { LoadedCard } from '../ops/kernels/kernel-card.ts';
import { activationBytes } from './activations.ts';
import { parameterBytes } from './arena.ts';
import type { ModelConfig } from './config.ts';
import { forward } from './forward.ts';
import { headForward } from './head.ts';
import { createModel, modelScratch } from './model.ts';
import { rotationPlan } from './positions.ts';

/** GPU memory outside the plan: kernel code, recorded graphs, rounding up to pages. */
const reserve = 384 * 2 ** 20;

/** Sequences of T tokens above which a larger batch is hardly faster: 65,536 tokens on a GPU, 4096 on a CPU. */
export const enoughRows = ({ description }: Device, T: number): number =>
  Math.max(1, Math.floor((description.library === 'cuda' ? 65536 : 4096) / T));

/** Device memory that a run may allocate: all that is free, or the user's limit. */
export interface MemoryLimit {
  readonly bytes: number;
  /** "41.3 GiB of 79.2 GiB are free", "--max-memory 6 allows no more" */
  readonly text: string;
  /** How to get more. */
  readonly remedy: string;
}

/** @param maxMemory GiB; undefined: all that is free */
export function memoryLimit(device: Device, maxMemory: number | undefined): MemoryLimit {
  const { available, total } = availableMemory(device);
  const allowed = maxMemory === undefined ? Number.POSITIVE_INFINITY : maxMemory * 2 ** 30;
  if (allowed < available) {
    return {
      bytes: allowed,
      text: words`--max-memory ${maxMemory} allows no more`,
      remedy: words`give a larger --max-memory`,
    };
  }
  const where = device.description.library === 'cuda' ? 'on the GPU' : 'here';
  return {
    bytes: available,
    text: `${gib(available)} of ${gib(total)} are free`,
    remedy: `end what else runs ${where}`,
  };
}

/** Free and total bytes of a device's memory; on the CPU within the limit of a container. */
export function availableMemory(device: Device): { available: number; total: number } {
  return device.description.library === 'cpu' ? withinContainer(device.memory()) : device.memory();
}

/** Free and total bytes of the host's memory. */
export const hostMemory = () => withinContainer({ available: freemem(), total: totalmem() });

function withinContainer({ available, total }: { available: number; total: number }) {
  const allowed = process.constrainedMemory();
  if (allowed <= 0 || allowed >= total) return { available, total };
  return { available: Math.max(0, Math.min(available, allowed - process.memoryUsage.rss())), total: allowed };
}

export const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;

/** Bytes of device memory, by the name of the allocation. */
type MemoryPlan = ReadonlyMap<string, number>;

export const totalOf = (plan: MemoryPlan): number => [...plan.values()].reduce((sum, bytes) => sum + bytes, 0);

/** Bytes that must be free for a plan. */
export const neededFor = (device: Device, plan: MemoryPlan): number =>
  totalOf(plan) + (device.description.library === 'cuda' ? reserve : 0);

/** Memory that `createModel` allocates for inference, and the scratch of the `cards` that replace ops. */
export const inferencePlan = (
  device: Device,
  config: ModelConfig,
  { B, T, cards = [] }: { readonly B: number; readonly T: number; readonly cards?: readonly LoadedCard[] },
): MemoryPlan =>
  new Map([
    ['weights', parameterBytes(config, device.elementType, device.elementType)],
    ...(device.elementType === 'fp32' ? [] : [['master weights', parameterBytes(config, 'fp32', 'fp32')] as const]),
    ...activationBytes(device, config, { B, T, purpose: 'inference' }),
    ...rotationPlan(config),
    ['workspace', modelScratch(device, config, { B, T })],
    ...cardScratch(device, cards, {
      accumulates: false,
      enqueue(absent) {
        const model = createModel(absent, config, { B, T, purpose: 'inference' });
        const activations = model.activations.at(B, T);
        forward(model, activations);
        headForward(model, activations);
      },
    }),
  ]);
