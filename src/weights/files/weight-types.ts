import { gpt2Error } from '../../base/errors.ts';
import { toBf16, toFp16 } from '../../base/files/half-floats.ts';

/** Number formats of stored weights: bytes of a value, and names or codes in the files of other programs. */
export const weightTypes = {
  fp32: { bytes: 4, safetensors: 'F32', torch: 'float32', ggufTensor: 0, ggufFile: 0 },
  bf16: { bytes: 2, safetensors: 'BF16', torch: 'bfloat16', ggufTensor: 30, ggufFile: 32 },
  fp16: { bytes: 2, safetensors: 'F16', torch: 'float16', ggufTensor: 1, ggufFile: 1 },
} as const;
export type WeightType = keyof typeof weightTypes;

/** The least magnitude that a type rounds to infinity. */
const infiniteFrom = { bf16: 2 ** 128 - 2 ** 119, fp16: 65520 };

/** Little-endian bytes of values, rounded to the nearest even. @throws Gpt2Error for a finite value that the type cannot hold */
export function encodeWeights(values: Float32Array, type: WeightType): Uint8Array {
  if (type === 'fp32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const large = values.find((value) => Number.isFinite(value) && Math.abs(value) >= infiniteFrom[type]);
  if (large !== undefined) {
    const other = type === 'fp16' ? 'bf16' : 'fp32';
    throw gpt2Error`the weight ${large} is over the range of ${type}: take --dtype ${other}`;
  }
  return new Uint8Array((type === 'bf16' ? toBf16(values) : toFp16(values)).buffer);
}
