// What a token costs in training, and what a device could do at most: the two halves of a model FLOPs utilization (MFU).
import type { ModelConfig } from './config.ts';

/**
 * Operations that a token costs in training: 6 for each weight that it is multiplied by (2 forward, 4 backward; Kaplan et al.
 * 2020), which leaves out wpe and counts wte as the head, and 6 * T * C a layer for causal attention's products.
 */
export function flopsPerToken(
  { layers, channels, vocabularySize }: Omit<ModelConfig, 'heads' | 'context'>,
  sequence: number,
): number {
  const weights = 12 * layers * channels ** 2 + vocabularySize * channels;
  return 6 * weights + 6 * layers * sequence * channels;
}

/** Dense bf16 rates of data sheets, by a word of the device's name. */
const dataSheets: Readonly<Record<string, number>> = { H100: 989e12, H200: 989e12, A100: 312e12 };

/** Operations per second that the device's data sheet names for a dtype; undefined where none is known. */
export const dataSheetFlops = (device: string, dtype: string): number | undefined =>
  Object.entries(dataSheets).find(([word]) => dtype === 'bf16' && device.includes(word))?.[1];
