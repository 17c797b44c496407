// Converts arrays of bf16, fp16 and FP8 (E4M3) to fp32, which is exact, and fp32 arrays to these types, which rounds.
// An array is copied to the new array type, then mapped: `Float32Array.from(values, map)` would take about 10 times as long.
import { lazily } from '../lazily.ts';

/** bf16 to fp32: the 16 bits become the upper half of an fp32. */
export const fromBf16 = (values: Uint16Array): Float32Array =>
  new Float32Array(new Uint32Array(values).map((bits) => bits << 16).buffer);

/** fp32 to bf16, rounded to nearest, ties to even. A NaN is not rounded, because rounding could turn it into infinity. */
export function toBf16(values: ArrayLike<number>): Uint16Array {
  const numbers = values instanceof Float32Array ? values : Float32Array.from(values);
  const bits = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  const rounded = new Uint16Array(bits.length);
  for (let index = 0; index < bits.length; index++) {
    const word = bits[index]!;
    const isNotANumber = (word & 0x7fffffff) > 0x7f800000;
    rounded[index] = isNotANumber ? (word >>> 16) | 0x40 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
  return rounded;
}

/** A format with a sign and `fraction` bits of fraction. `most`: the bits of its largest magnitude, whose value is `limit`. */
const fp16 = { width: 16, fraction: 10, bias: 15, most: 0x7c00, limit: Number.POSITIVE_INFINITY, nan: 0x7e00 };
/** FP8 of Micikevicius et al. 2022, which has no infinity. */
const e4m3 = { width: 8, fraction: 3, bias: 7, most: 0x7e, limit: 448, nan: 0x7f };

/** fp32 to fp16, rounded to nearest, ties to even; absolute values from 65520 on become infinite. */
export const toFp16 = (values: Float32Array): Uint16Array => rounded(values, fp16, new Uint16Array(values.length));

/** fp32 to E4M3, rounded to nearest, ties to even; numbers over 448, the largest of E4M3, become 448. */
export const toE4m3 = (values: ArrayLike<number>): Uint8Array =>
  rounded(values instanceof Float32Array ? values : Float32Array.from(values), e4m3, new Uint8Array(values.length));

function rounded<A extends Uint16Array | Uint8Array>(values: Float32Array, format: typeof fp16, into: A): A {
  const { width, fraction, bias, most, nan } = format;
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  const leastNormal = (128 - bias) << 23;
  // Normal numbers: the exponent biases differ by 127 - bias, and fp32 has `more` more bits of fraction.
  const more = 23 - fraction;
  const offset = 2 ** (more - 1) - 1 - ((127 - bias) << 23);
  for (let index = 0; index < words.length; index++) {
    const [word, size] = [words[index]!, words[index]! & 0x7fffffff];
    const sign = (word >>> (32 - width)) & (1 << (width - 1));
    if (size > 0x7f800000) into[index] = width === 16 ? sign | nan : nan;
    else if (size < leastNormal)
      into[index] = sign | roundedToEven(Math.abs(values[index]!) * 2 ** (bias - 1 + fraction));
    else into[index] = sign | Math.min((size + offset + ((size >>> more) & 1)) >>> more, most);
  }
  return into;
}

function roundedToEven(value: number): number {
  const below = Math.floor(value);
  return value - below > 0.5 || (value - below === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** The fp32 value of each bit pattern of a format. */
const tableOf = ({ width, fraction, bias, most, limit }: typeof fp16) =>
  Float32Array.from({ length: 2 ** width }, (_, bits) => {
    const size = bits & (2 ** (width - 1) - 1);
    const exponent = size >> fraction;
    const digits = (size & (2 ** fraction - 1)) + (exponent === 0 ? 0 : 2 ** fraction);
    const value = size === most ? limit : digits * 2 ** (Math.max(exponent, 1) - bias - fraction);
    return size > most ? Number.NaN : size === bits ? value : -value;
  });

const halves = lazily(() => tableOf(fp16));
const quarters = tableOf(e4m3);

export function fromFp16(values: Uint16Array): Float32Array {
  const table = halves();
  return new Float32Array(values).map((bits) => table[bits]!);
}

export const fromE4m3 = (values: Uint8Array): Float32Array => new Float32Array(values).map((bits) => quarters[bits]!);
