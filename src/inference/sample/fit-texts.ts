// Decides before allocation how many texts fit in a device's memory together.
import { gpt2Error } from '../../base/errors.ts';
import type { ModelConfig } from '../../model/config.ts';
import type { CacheSizes } from '../../model/key-value-cache.ts';
import { gib, inferencePlan, memoryLimit, neededFor } from '../../model/memory.ts';
import type { Device } from '../../native/device.ts';

/**
 * `sizes.texts`, halved until the model and its cache fit.
 * @throws Gpt2Error if not even one text fits
 */
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

/** Activation sizes for a whole window of one text, or for one token of each text. */
export const generationRows = ({ texts, window }: CacheSizes): { B: number; T: number } => ({
  B: Math.ceil(texts / window),
  T: window,
});
