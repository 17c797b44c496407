// Types of a tensor's elements, and the sizes of a columnwise copy in FP8.
import { fromBf16, fromE4m3, fromFp16, toBf16, toE4m3, toFp16 } from '../base/files/half-floats.ts';
import { GPT2_FP8_COLUMNWISE } from './bindings.generated.ts';

/** A tensor's elements on the host; bf16 and fp16 as raw 16 bits, FP8 (E4M3) as raw 8 bits. `tensorOf` takes an array's first type. */
export const hostArrays = {
  fp32: Float32Array,
  bf16: Uint16Array,
  fp8: Uint8Array,
  int8: Int8Array,
  int32: Int32Array,
  // No op of the library has these: they are for kernels of a user.
  fp16: Uint16Array,
  fp64: Float64Array,
  uint8: Uint8Array,
};
export type ElementType = keyof typeof hostArrays;
export type HostArray = Float32Array | Float64Array | Uint16Array | Uint8Array | Int8Array | Int32Array;

/** Types whose host array holds bits: numbers rounded to the type (nearest, ties to even) and back. */
export const conversions: {
  readonly [type in ElementType]?: { to(values: Float32Array): HostArray; from(bits: never): Float32Array };
} = {
  bf16: { to: toBf16, from: fromBf16 },
  fp16: { to: toFp16, from: fromFp16 },
  fp8: { to: toE4m3, from: fromE4m3 },
};

export const bytesOf = (type: ElementType): number => hostArrays[type].BYTES_PER_ELEMENT;

export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);

/** Rows of a columnwise copy in FP8 that share a scale (cuda/gpt2.h). */
export const blockRows = GPT2_FP8_COLUMNWISE.GPT2_FP8_BLOCK;

/** Blocks of the N rows of a columnwise copy; each block has one scale. */
export const blocksOf = (N: number): number => Math.ceil(N / blockRows);

/** Groups of 16 of the N rows of a columnwise copy; the last group ends with zeros. */
export const groupsOf = (N: number): number => Math.ceil(N / 16);
