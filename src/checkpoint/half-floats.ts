// Numbers of 16 bits as fp32, which holds every one of them exactly.

/** bf16 is the upper half of an fp32. */
export const fromBf16 = (values: Uint16Array): Float32Array =>
  new Float32Array(Uint32Array.from(values, (bits) => bits << 16).buffer);

/** Each of the 65,536 fp16 numbers. */
let halves: Float32Array | undefined;

export function fromFp16(values: Uint16Array): Float32Array {
  halves ??= Float32Array.from({ length: 65536 }, (_, bits) => fp16(bits));
  const table = halves;
  return Float32Array.from(values, (bits) => table[bits]!);
}

/** IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction. */
function fp16(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const sign = bits & 0x8000 ? -1 : 1;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
}
