// Operations of a token in training, and a device's peak rate: the two parts of model FLOPs utilization (MFU).
import type { ModelConfig } from './config.ts';

/**
 * Operations of a token in training: 6 for each weight that multiplies it (2 forward, 4 backward; Kaplan et al. 2020), which
 * excludes wpe and counts wte as the head, and 6 * T * C per layer for the products of causal attention.
 */
export function flopsPerToken(
  { layers, channels, vocabularySize }: Omit<ModelConfig, 'heads' | 'context'>,
  sequence: number,
): number {
  const weights = 12 * layers * channels ** 2 + vocabularySize * channels;
  return 6 * weights + 6 * layers * sequence * channels;
}

/** Dense bf16 rates from data sheets, by a word of the device's name. */
const dataSheets: Readonly<Record<string, number>> = { H100: 989e12, H200: 989e12, A100: 312e12 };

/** Operations per second from the device's data sheet; undefined if unknown. */
export const dataSheetFlops = (device: string, dtype: string): number | undefined =>
  Object.entries(dataSheets).find(([word]) => dtype === 'bf16' && device.includes(word))?.[1];
