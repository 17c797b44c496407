// Bytes of tensors in FP8.
import type { Tensor } from '../../src/native/buffer.ts';

/** Bytes that differ, by index; NaN has two. */
export function differences(actual: ArrayLike<number>, wanted: ArrayLike<number>): number[] {
  const canonical = (bits: number) => ((bits & 0x7f) === 0x7f ? 0x7f : bits);
  return Array.from(wanted, (_, index) => index).filter(
    (index) => canonical(actual[index]!) !== canonical(wanted[index]!),
  );
}

export const bytesOf = (tensor: Tensor): Uint8Array => tensor.read() as Uint8Array;
