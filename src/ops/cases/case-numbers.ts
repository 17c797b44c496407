// Numbers for test cases of ops: random inputs from a seed, rounding to a tensor's type, and error measures.
import { conversions, type ElementType } from '../../native/element-types.ts';
import type { Tensor } from '../../native/tensor.ts';

export type Numbers = Float32Array | Float64Array | Int32Array;

/** A reproducible random generator: splitmix (Steele, Lea and Flood 2014) with 32 bits. */
export class Random {
  /** The state, one number, in an array so that V8 need not allocate each new value: draws are twice as fast. */
  readonly #state = new Int32Array(1);
  constructor(seed: number) {
    this.#state[0] = Math.imul(seed, 0x9e3779b1);
  }
  /** A number in [0, 1). */
  uniform(): number {
    const state = (this.#state[0]! + 0x9e3779b9) | 0;
    this.#state[0] = state;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 8) / 2 ** 24;
  }
  /** Approximately normal numbers with standard deviation `scale`: sums of twelve uniform numbers, minus six. */
  normals(count: number, scale = 1): Float32Array {
    const values = new Float32Array(count);
    for (let index = 0; index < count; index++) {
      let sum = -6;
      for (let draw = 0; draw < 12; draw++) sum += this.uniform();
      values[index] = sum * scale;
    }
    return values;
  }
  integers(count: number, below: number): Int32Array {
    return new Int32Array(count).map(() => Math.floor(this.uniform() * below));
  }
}

/** Reads a tensor of real numbers as fp32. FP8 values are not multiplied by their scale. */
export const floats = (tensor: Tensor): Float32Array => numbersOf(tensor, tensor.read()) as Float32Array;

/** Converts values that were read from a tensor, which may be bits, to numbers. */
export function numbersOf({ type }: Tensor, values: ReturnType<Tensor['read']>): Float32Array | Int32Array {
  if (type === 'int32') return values as Int32Array;
  if (values instanceof Int8Array) return fromDerivatives(values);
  return conversions[type]?.from(values as never) ?? asFloat32(values);
}

/** The values as Float32Array, copied only if needed. (`Float32Array.from` takes 10 times as long as the constructor.) */
const asFloat32 = (values: ArrayLike<number>): Float32Array =>
  values instanceof Float32Array ? values : new Float32Array(values);

/** Encodes GELU's derivatives in one byte each, rounded to nearest, as the section "FP8" of cuda/gpt2.h defines. */
const toDerivatives = (values: ArrayLike<number>): Int8Array =>
  Int8Array.from(values, (value) =>
    Number.isNaN(value) ? 127 : Math.min(Math.max(Math.round(value * 200) - 100, -126), 126),
  );
const fromDerivatives = (bytes: Int8Array): Float32Array =>
  new Float32Array(bytes).map((byte) => (byte === 127 ? Number.NaN : (byte + 100) / 200));

/** Numbers after rounding to a tensor's type, as fp32. */
export function held(type: ElementType, values: ArrayLike<number>): Float32Array {
  if (type === 'int8') return fromDerivatives(toDerivatives(values));
  const { to, from } = conversions[type] ?? {};
  return to && from ? from(to(asFloat32(values)) as never) : asFloat32(values);
}

export function writeNumbers(tensor: Tensor, values: ArrayLike<number>): void {
  if (tensor.type === 'int32') tensor.write(Int32Array.from(values));
  else if (tensor.type === 'int8') tensor.write(toDerivatives(values));
  else tensor.write(conversions[tensor.type]?.to(asFloat32(values)) ?? asFloat32(values));
}

/** The transpose [columns,rows] of a [rows,columns]. */
export const transposed = (a: Numbers, rows: number, columns: number): Float64Array =>
  Float64Array.from({ length: a.length }, (_, index) => a[(index % rows) * columns + Math.floor(index / rows)]!);

/** L2 norm, ‖a‖. */
export const norm = (values: ArrayLike<number>): number => {
  let squares = 0;
  for (let index = 0; index < values.length; index++) squares += values[index]! ** 2;
  return Math.sqrt(squares);
};

/** L2 norm of the difference, ‖a - b‖. */
export function distance(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let squares = 0;
  for (let index = 0; index < b.length; index++) squares += (a[index]! - b[index]!) ** 2;
  return Math.sqrt(squares);
}

/** max |a - b| */
export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let difference = 0;
  for (let index = 0; index < b.length; index++) {
    // The comparison is negated, so that a NaN replaces the largest difference.
    const error = Math.abs(a[index]! - b[index]!);
    if (!(error <= difference)) difference = error;
  }
  return difference;
}

/** max |a|, but at least `least`, so that one can divide by it */
export function largestOf(a: ArrayLike<number>, least = 1e-30): number {
  let largest = least;
  for (let index = 0; index < a.length; index++) largest = Math.max(largest, Math.abs(a[index]!));
  return largest;
}

/** max |a - b| / max |b| */
export const worstError = (a: ArrayLike<number>, b: ArrayLike<number>): number =>
  largestDifference(a, b) / largestOf(b);
