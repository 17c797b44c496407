// Types of a tensor's elements, and the sizes of a columnwise copy in FP8.
import { fromBf16, fromE4m3, fromFp16, toBf16, toE4m3, toFp16 } from '../base/files/half-floats.ts';
import { GPT2_FP8_COLUMNWISE } from './bindings.generated.ts';

/** The host array of each element type: bits for bf16, fp16, FP8 (E4M3). The first type of a class of arrays is `tensorOf`'s default. */
export const hostArrays = {
  fp32: Float32Array,
  bf16: Uint16Array,
  fp8: Uint8Array,
  int8: Int8Array,
  int32: Int32Array,
  // No op of the library has tensors of these types; a user's kernels may.
  fp16: Uint16Array,
  fp64: Float64Array,
  uint8: Uint8Array,
};
export type ElementType = keyof typeof hostArrays;
export type HostArray = Float32Array | Float64Array | Uint16Array | Uint8Array | Int8Array | Int32Array;

/** Conversions of element types that the host stores as bits: `to` rounds numbers (nearest, ties to even), `from` is exact. */
export const conversions: {
  readonly [type in ElementType]?: { to(values: Float32Array): HostArray; from(bits: never): Float32Array };
} = {
  bf16: { to: toBf16, from: fromBf16 },
  fp16: { to: toFp16, from: fromFp16 },
  fp8: { to: toE4m3, from: fromE4m3 },
};

export const bytesOf = (type: ElementType): number => hostArrays[type].BYTES_PER_ELEMENT;

export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Number of matrix rows that share a scale in a columnwise (transposed) FP8 copy; see cuda/gpt2.h. */
export const blockRows = GPT2_FP8_COLUMNWISE.GPT2_FP8_BLOCK;

/** Number of blocks, each with one scale, in a columnwise FP8 copy of a matrix with N rows. */
export const blocksOf = (N: number): number => Math.ceil(N / blockRows);

/** Number of groups of 16 rows in a columnwise FP8 copy of a matrix with N rows; the last group is padded with zeros. */
export const groupsOf = (N: number): number => Math.ceil(N / 16);
