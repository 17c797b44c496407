// Types of a tensor's elements.

/** A tensor's elements on the host; bf16 as raw 16 bits, FP8 (E4M3) as raw 8 bits. */
export const hostArrays = { fp32: Float32Array, bf16: Uint16Array, fp8: Uint8Array, int32: Int32Array };
export type HostArray = Float32Array | Uint16Array | Uint8Array | Int32Array;

export type ElementType = keyof typeof hostArrays;

/** Bytes that one element of a type takes. */
export const bytesOf = (type: ElementType): number => hostArrays[type].BYTES_PER_ELEMENT;

/** Number of elements of a tensor of this shape. */
export const elementCount = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
