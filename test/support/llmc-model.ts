// Writes llm.c's model file for tests, from values by our names. The program itself only reads it.
import { toBf16 } from '../../src/base/files/half-floats.ts';
import { type ModelConfig, paddedVocabularySize } from '../../src/model/config.ts';
import { llmcHeaderBytes, llmcMagic, llmcTensors, llmcVersions } from '../../src/weights/formats/llmc.ts';

/** The bytes of a file. `read` gives a parameter's values by its name in our table, wte's with its padding rows. */
export function llmcModelFile(
  config: ModelConfig,
  type: keyof typeof llmcVersions,
  read: (name: string) => Float32Array,
): Buffer {
  const { layers, channels, heads, context, vocabularySize } = config;
  const rows = paddedVocabularySize(config);
  const header = new Int32Array(llmcHeaderBytes / 4);
  header.set([llmcMagic, llmcVersions[type], context, vocabularySize, layers, heads, channels, rows]);
  const parts: Uint8Array[] = [new Uint8Array(header.buffer)];
  for (const { name, layers: count } of llmcTensors(config, rows)) {
    const isWhole = /^(wte|wpe|lnf.)$/.test(name);
    for (let layer = 0; layer < count; layer++) {
      const values = read(isWhole ? name : `h.${layer}.${name}`);
      const stored = type === 'bf16' ? toBf16(values) : values;
      parts.push(new Uint8Array(stored.buffer, stored.byteOffset, stored.byteLength));
    }
  }
  return Buffer.concat(parts);
}
