// How many texts a device has memory to make at a time, before anything is allocated.
import { Gpt2Error } from '../errors.ts';
import type { ModelConfig } from '../model/config.ts';
import { type CacheSizes, cacheBytes, decodeScratch } from '../model/key-value-cache.ts';
import { gib, inferencePlan, memoryLimit, neededFor } from '../model/memory.ts';
import type { Device } from '../native/device.ts';

/**
 * At most `sizes.texts`, halved until they fit beside the model.
 * @throws Gpt2Error if not even one does
 */
export function fittingTexts(device: Device, config: ModelConfig, sizes: CacheSizes): number {
  const limit = memoryLimit(device, undefined);
  for (let { texts } = sizes; ; texts = Math.ceil(texts / 2)) {
    const needed = generationBytes(device, config, { ...sizes, texts });
    if (needed <= limit.bytes) return texts;
    if (texts === 1) {
      throw new Gpt2Error(
        `a text needs ${gib(needed)} of memory, ${limit.text}; take a smaller --model, or ${limit.remedy}`,
      );
    }
  }
}

/** Bytes that the model, its cache and what the kernels keep take. */
function generationBytes(device: Device, config: ModelConfig, sizes: CacheSizes): number {
  const rows = generationRows(sizes);
  const plan = new Map(inferencePlan(device, config, rows));
  plan.set('key-value cache', cacheBytes(device, config, sizes));
  plan.set('workspace', Math.max(plan.get('workspace') ?? 0, decodeScratch(device, config, sizes)));
  return neededFor(device, plan);
}

/** Activations for a whole window, or a token of each text. */
export const generationRows = ({ texts, window }: CacheSizes): { B: number; T: number } => ({
  B: Math.ceil(texts / window),
  T: window,
});
