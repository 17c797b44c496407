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

/** Dense rates from data sheets, by a word of the device's name and by dtype. */
const dataSheets: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  H100: { bf16: 989e12, fp8: 1979e12 },
  H200: { bf16: 989e12, fp8: 1979e12 },
  A100: { bf16: 312e12 },
};

/**
 * Operations per second from the device's data sheet; undefined if unknown. Of fp8 it is the rate of FP8, though a step has products
 * in bf16 too: then no step is above 100%, and half the utilization of bf16 is the same speed.
 */
export const dataSheetFlops = (device: string, dtype: string): number | undefined =>
  Object.entries(dataSheets).find(([word]) => device.includes(word))?.[1][dtype];

/** Names the data sheet's rate where a dtype has two: fp8 runs products of FP8 and of bf16. */
export const rateNote = (dtype: string): string => (dtype === 'fp8' ? ' in FP8' : '');
