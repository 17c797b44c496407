// Decides before allocation whether a model for inference fits the device, with which batch, and with how many texts.
import { gpt2Error, usageError, words } from '../base/errors.ts';
import type { ModelConfig } from '../model/config.ts';
import type { CacheSizes } from '../model/key-value-cache.ts';
import { enoughRows, gib, inferencePlan, largestFitting, memoryLimit, neededFor, upTo } from '../model/memory.ts';
import type { Device } from '../native/device.ts';
import type { LoadedCard } from '../ops/kernels/kernel-card.ts';

interface FitOptions {
  readonly T: number;
  /** Limit of device memory in GiB; default: all free memory. */
  readonly maxMemory?: number;
  /** Kernels that replace ops. Default none. */
  readonly cards?: readonly LoadedCard[];
}

/** @throws UsageError if a sequence is over the model's context */
export function checkSequence(sequence: number, { context }: ModelConfig): void {
  if (sequence <= context) return;
  throw usageError`--seq ${sequence} is over the model's context of ${context} positions; take a shorter --seq`;
}

/** The batch of --batch auto: the largest that fits and still gains speed. @throws Gpt2Error if not even one sequence fits */
export function chooseInferenceBatch(device: Device, config: ModelConfig, { maxMemory, ...sizes }: FitOptions): number {
  const limit = memoryLimit(device, maxMemory);
  const fits = (B: number) => neededBytes(device, config, { B, ...sizes }) <= limit.bytes;
  const batch = largestFitting(upTo(enoughRows(device, sizes.T)), fits);
  if (batch !== undefined) return batch;
  throw gpt2Error`--batch auto: not one sequence of --seq ${sizes.T} fits, ${limit.text}; ${lessThanOne(limit)}`;
}

/** @throws Gpt2Error if memory is too small; the message names the memory needed, the limit, and a batch that fits */
export function checkInferenceMemory(
  device: Device,
  config: ModelConfig,
  { B, maxMemory, ...sizes }: FitOptions & { readonly B: number },
): void {
  const limit = memoryLimit(device, maxMemory);
  const bytes = neededBytes(device, config, { B, ...sizes });
  if (bytes <= limit.bytes) return;
  const fits = (smaller: number) => neededBytes(device, config, { B: smaller, ...sizes }) <= limit.bytes;
  const fitting = largestFitting(upTo(B - 1), fits);
  throw gpt2Error`--batch ${B} with --seq ${sizes.T} needs ${gib(bytes)} of memory, ${limit.text}; ${fitting === undefined ? `no batch fits: ${lessThanOne(limit)}` : words`--batch ${fitting} fits`}`;
}

const neededBytes = (device: Device, config: ModelConfig, sizes: FitOptions & { readonly B: number }): number =>
  neededFor(device, inferencePlan(device, config, sizes));

const lessThanOne = ({ remedy }: ReturnType<typeof memoryLimit>): string => words`take a shorter --seq, or ${remedy}`;

/** The number of texts to generate together: `sizes.texts`, halved until all fits. @throws Gpt2Error if not even one text fits */
export function fittingTexts(device: Device, config: ModelConfig, sizes: CacheSizes): number {
  const limit = memoryLimit(device, undefined);
  for (let { texts } = sizes; ; texts = Math.ceil(texts / 2)) {
    const cache = { ...sizes, texts };
    const needed = neededFor(device, inferencePlan(device, config, { ...generationRows(cache), cache }));
    if (needed <= limit.bytes) return texts;
    if (texts === 1) {
      throw gpt2Error`a text needs ${gib(needed)} of memory, ${limit.text}; take a smaller --model, or ${limit.remedy}`;
    }
  }
}

/** The smallest activations, B x T tokens with T = `window`, that hold a whole window of one text and also one token of each text. */
export const generationRows = ({ texts, window }: CacheSizes) => ({ B: Math.ceil(texts / window), T: window });
