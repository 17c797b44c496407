// The number formats that weights are exported in.
import { Gpt2Error } from '../errors.ts';
import { toBf16, toFp16 } from '../files/half-floats.ts';

/** Each with its bytes and its names or codes in other programs' files. */
export const weightTypes = {
  fp32: { bytes: 4, safetensors: 'F32', torch: 'float32', ggufTensor: 0, ggufFile: 0 },
  bf16: { bytes: 2, safetensors: 'BF16', torch: 'bfloat16', ggufTensor: 30, ggufFile: 32 },
  fp16: { bytes: 2, safetensors: 'F16', torch: 'float16', ggufTensor: 1, ggufFile: 1 },
} as const;
export type WeightType = keyof typeof weightTypes;

/** From here on, fp16 rounds to infinity. */
const overFp16 = 65520;

/** Little-endian bytes of values, rounded to the nearest even. @throws Gpt2Error for a finite value that fp16 cannot hold */
export function encodeWeights(values: Float32Array, type: WeightType): Uint8Array {
  if (type === 'fp32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (type === 'bf16') return new Uint8Array(toBf16(values).buffer);
  const large = values.find((value) => Number.isFinite(value) && Math.abs(value) >= overFp16);
  if (large !== undefined) throw new Gpt2Error(`the weight ${large} is over the range of fp16: take --dtype bf16`);
  return new Uint8Array(toFp16(values).buffer);
}
