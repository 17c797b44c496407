// Operations of a token in training, and a device's peak rate: the two parts of model FLOPs utilization (MFU).
import type { ModelConfig } from './config.ts';

/**
 * Operations of a token in training: 6 for each weight of a matmul (2 forward, 4 backward; Kaplan et al. 2020), which excludes
 * wpe and counts wte as the head; and 6 * T * C per layer for the matmuls of causal attention.
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
 * Operations per second from the device's data sheet; undefined if unknown. For fp8 it is the rate of FP8, although a step has
 * matmuls in bf16 too: then no step exceeds 100%, and half the utilization of bf16 is the same speed.
 */
export const dataSheetFlops = (device: string, dtype: string): number | undefined =>
  Object.entries(dataSheets).find(([word]) => device.includes(word))?.[1][dtype];

/** Names the rate for fp8, which has matmuls in FP8 and in bf16. */
export const rateNote = (dtype: string): string => (dtype === 'fp8' ? ' in FP8' : '');
