// Types of a tensor's elements, and the sizes of a columnwise copy in FP8.
import { GPT2_FP8_COLUMNWISE } from './bindings.generated.ts';

/** A tensor's elements on the host; bf16 as raw 16 bits, FP8 (E4M3) as raw 8 bits. int8: GELU's derivative (cuda/gpt2.h). */
export const hostArrays = {
  fp32: Float32Array,
  bf16: Uint16Array,
  fp8: Uint8Array,
  int8: Int8Array,
  int32: Int32Array,
};
export type HostArray = Float32Array | Uint16Array | Uint8Array | Int8Array | Int32Array;

export type ElementType = keyof typeof hostArrays;

export const bytesOf = (type: ElementType): number => hostArrays[type].BYTES_PER_ELEMENT;

export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Rows of a columnwise copy in FP8 that share a scale (cuda/gpt2.h). */
export const blockRows = GPT2_FP8_COLUMNWISE.GPT2_FP8_BLOCK;

/** Blocks of the N rows of a columnwise copy; each block has one scale. */
export const blocksOf = (N: number): number => Math.ceil(N / blockRows);

/** Groups of 16 of the N rows of a columnwise copy; the last group ends with zeros. */
export const groupsOf = (N: number): number => Math.ceil(N / 16);
