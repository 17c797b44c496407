// Reads a checkpoint's weights for files of other programs, one parameter at a time, and encodes them in fp32 or bf16.
import { join } from 'node:path';
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { weightsFile } from '../checkpoint/manifest.ts';
import { toBf16 } from '../files/half-floats.ts';
import type { ModelConfig } from '../model/config.ts';
import { type Parameter, parameterTable } from '../model/parameters.ts';
import { storedShape, toStored } from './layout.ts';
import { openSafetensors } from './safetensors.ts';

export type WeightType = 'fp32' | 'bf16';

export interface OpenWeights extends Disposable {
  readonly config: ModelConfig;
  readonly parameters: readonly Parameter[];
  /** The real rows, [out, in]. */
  read(parameter: Parameter): Float32Array;
}

/** @throws Gpt2Error if the file is damaged or lacks a tensor */
export function openWeights({ path, manifest }: FoundCheckpoint): OpenWeights {
  const file = openSafetensors(join(path, weightsFile));
  return {
    config: manifest.model,
    parameters: parameterTable(manifest.model),
    read(parameter) {
      const values = file.read(parameter.huggingFaceName);
      if (!parameter.transposed) return values;
      // Transposes [in, out] back to [out, in].
      const [inputs, outputs] = storedShape(parameter) as [number, number];
      return toStored({ ...parameter, rows: inputs, shape: [inputs, outputs] }, values);
    },
    [Symbol.dispose]: () => file.close(),
  };
}

/** Little-endian bytes of values; bf16 is rounded to nearest even. */
export function encodeWeights(values: Float32Array, type: WeightType): Uint8Array {
  if (type === 'fp32') return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  return new Uint8Array(toBf16(values).buffer);
}
