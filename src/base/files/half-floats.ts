// Converts arrays of bf16, fp16 and FP8 (E4M3) to fp32, which is exact, and fp32 arrays to these types, which rounds. An array is first
// copied to the new array type, then mapped, because `Float32Array.from(values, map)` takes about 10 times as long.
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

/** fp32 to fp16, rounded to nearest, ties to even; absolute values from 65520 on become infinite. */
export function toFp16(values: Float32Array): Uint16Array {
  const words = new Uint32Array(values.buffer, values.byteOffset, values.length);
  return new Uint16Array(
    words.map((word, index) => ((word >>> 16) & 0x8000) | sizeInFp16(word & 0x7fffffff, values[index]!)),
  );
}

function sizeInFp16(word: number, value: number): number {
  if (word > 0x7f800000) return 0x7e00;
  // Normal fp16 numbers: the exponent biases differ by 112, and fp32 has 13 more bits of fraction.
  if (word >= 0x38800000) return Math.min((word - 0x38000000 + 0xfff + ((word >>> 13) & 1)) >>> 13, 0x7c00);
  return roundedToEven(Math.abs(value) * 2 ** 24);
}

function roundedToEven(value: number): number {
  const below = Math.floor(value);
  return value - below > 0.5 || (value - below === 0.5 && below % 2 === 1) ? below + 1 : below;
}

/** The fp32 value of each of the 65,536 bit patterns of fp16. */
const halves = lazily(() => Float32Array.from({ length: 65536 }, (_, bits) => fp16(bits)));

export function fromFp16(values: Uint16Array): Float32Array {
  const table = halves();
  return new Float32Array(values).map((bits) => table[bits]!);
}

/** The value of fp16 bits (IEEE 754 binary16): a sign, 5 bits of exponent, 10 of fraction. */
function fp16(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** The fp32 value of each of the 256 bit patterns of E4M3 (Micikevicius et al. 2022): sign, 4 exponent bits, 3 fraction bits. */
const e4m3 = Float32Array.from({ length: 256 }, (_, bits) => {
  const [exponent, fraction] = [(bits >> 3) & 15, bits & 7];
  if (exponent === 15 && fraction === 7) return Number.NaN;
  const size = exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10);
  return bits & 0x80 ? -size : size;
});

export const fromE4m3 = (values: Uint8Array): Float32Array => new Float32Array(values).map((bits) => e4m3[bits]!);

/** fp32 to E4M3, rounded to nearest, ties to even; numbers over 448, the largest of E4M3, become 448. */
export function toE4m3(values: ArrayLike<number>): Uint8Array {
  const numbers = values instanceof Float32Array ? values : Float32Array.from(values);
  const words = new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length);
  return new Uint8Array(
    words.map((word, index) => {
      const size = word & 0x7fffffff;
      return size > 0x7f800000 ? 0x7f : ((word >>> 24) & 0x80) | sizeInE4m3(size, numbers[index]!);
    }),
  );
}

function sizeInE4m3(word: number, value: number): number {
  // Normal E4M3 numbers: the exponent biases differ by 120, and fp32 has 20 more bits of fraction.
  if (word >= 0x3c800000) return Math.min((word - 0x3c000000 + 0x7ffff + ((word >>> 20) & 1)) >>> 20, 0x7e);
  return roundedToEven(Math.abs(value) * 2 ** 9);
}
