// Model FLOPs utilization (MFU) from the operations of training on a token and the peak rate of a GPU; memory of GPUs for plans.
import { UsageError, usageError } from '../base/errors.ts';
import type { ModelConfig } from './config.ts';
import { windowOf } from './mask.ts';

/**
 * Floating-point operations of training on one token: 6 for each weight of a matmul (2 forward, 4 backward; Kaplan et al. 2020). wte
 * counts once, as the head; wpe does not count. Causal attention adds 6 * T * C per layer, because a query has T / 2 keys on average.
 * With a window of w keys, the average is w - w^2 / 2T. Document masks, which lower the average, are ignored.
 */
export function flopsPerToken(config: Omit<ModelConfig, 'heads' | 'context'>, sequence: number): number {
  const { layers, channels, vocabularySize } = config;
  const weights = 12 * layers * channels ** 2 + vocabularySize * channels;
  let keys = 0;
  for (let layer = 0; layer < layers; layer++) {
    const window = Math.min(windowOf(config, layer) || sequence, sequence);
    keys += 2 * window - window ** 2 / sequence;
  }
  return 6 * weights + 6 * keys * channels;
}

/** Numbers of a GPU's data sheet: memory in GiB, and dense operations per second by dtype, with sums in fp32. */
interface DataSheet {
  readonly memory: number;
  readonly bf16?: number;
  readonly fp8?: number;
}

/** Data sheets by a word of the device's name. Slower variants with the same word (PCIe, NVL, D, laptops) are not in the table. */
const dataSheets: Readonly<Record<string, DataSheet>> = {
  H100: { memory: 79.6, bf16: 989e12, fp8: 1979e12 },
  H200: { memory: 140.4, bf16: 989e12, fp8: 1979e12 },
  A100: { memory: 80, bf16: 312e12 },
  'RTX 4090': { memory: 24, bf16: 165.2e12, fp8: 330.3e12 },
};

/** The share of the data sheet's rate that training d12 at 64 x 1024 reached on an H100 (benchmarks/h100.md, fp8.md). */
const measuredShare: Readonly<Record<string, number>> = { bf16: 0.508, fp8: 0.312 };

/**
 * Peak operations per second from a device's data sheet; undefined if unknown. In dtype fp8 this is the rate of FP8, although a step
 * also has matmuls in bf16: no utilization exceeds 100%, but half the utilization of bf16 means the same speed.
 */
export const dataSheetFlops = (device: string, dtype: string): number | undefined =>
  rateOf(
    Object.entries(dataSheets).find(([word]) => new RegExp(`\\b${word}\\b(?! (D|Laptop|NVL|PCIe))`).test(device))?.[1],
    dtype,
  );

const rateOf = (sheet: DataSheet | undefined, dtype: string): number | undefined =>
  dtype === 'bf16' || dtype === 'fp8' ? sheet?.[dtype] : undefined;

/** Bytes of device memory that a CUDA context takes on an H100. */
const cudaContext = 552_402_944;

/** A GPU's name on the command line: "4090" for "RTX 4090". */
const shortName = (word: string): string => word.split(' ').at(-1)!.toLowerCase();

/**
 * The GPU that --for names: a GPU of the table, or any GPU by its memory ("24GB"). `flops`: expected operations per second in training;
 * undefined if unknown. `available`: free bytes when a run starts, assuming that the driver keeps 0.5% of the memory, CUDA's context
 * takes as much as on an H100, and kernels need a workspace of 128 MiB, more than any workspace in benchmarks/h100.
 * @throws UsageError for an unknown name, or a dtype that the GPU does not support
 */
export function plannedGpu(name: string, dtype: string) {
  const gigabytes = /^(\d{1,4}(?:\.\d+)?)GB$/i.exec(name)?.[1];
  const word = Object.keys(dataSheets).find((word) => shortName(word) === name.toLowerCase());
  const sheet = word === undefined ? gigabytes && { memory: Number(gigabytes) } : dataSheets[word];
  if (!sheet) {
    const names = Object.keys(dataSheets).map(shortName).join(', ');
    throw UsageError.takes('--for', `${names}, or memory such as 24GB`, name);
  }
  const rate = rateOf(sheet, dtype);
  if (word !== undefined && dtype === 'fp8' && rate === undefined) {
    throw usageError`--dtype fp8 needs an Ada GPU, Hopper or later, not ${word}; take --dtype bf16`;
  }
  const flops = rate && rate * measuredShare[dtype]!;
  const total = sheet.memory * 2 ** 30;
  const available = Math.max(0, total * 0.995 - cudaContext - 128 * 2 ** 20);
  return { name: word ?? name.toUpperCase(), memory: { available, total }, flops };
}

/** A suffix for a utilization: " in FP8" in dtype fp8, in which a step has matmuls in FP8 and in bf16; else "". */
export const rateNote = (dtype: string): string => (dtype === 'fp8' ? ' in FP8' : '');
