// Reads a checkpoint's weights for files of other programs, one parameter at a time, and encodes them in fp32 or bf16.
import { join } from 'node:path';
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { weightsFile } from '../checkpoint/manifest.ts';
import { toBf16 } from '../files/half-floats.ts';
import { fromStored } from './layout.ts';
import { openSafetensors } from './safetensors.ts';
import { readerOf } from './stored-file.ts';
import type { StoredModel } from './stored-model.ts';

export type WeightType = 'fp32' | 'bf16';

/** @throws Gpt2Error if the file is damaged or lacks a tensor */
export const openWeights = ({ path, manifest }: FoundCheckpoint): StoredModel =>
  readerOf(openSafetensors(join(path, weightsFile)), (file) => ({
    model: manifest.model,
    read: (parameter) => fromStored(parameter, file.read(parameter.huggingFaceName)),
  }));

/** Little-endian bytes of values; bf16 is rounded to nearest even. */
export function encodeWeights(values: Float32Array, type: WeightType): Uint8Array {
  if (type === 'fp32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return new Uint8Array(toBf16(values).buffer);
}
