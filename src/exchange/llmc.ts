// Writes llm.c's model file, whose form and reading are in checkpoint/llmc-model.ts. Its vocabulary is padded as ours, so
// padding rows are part of the file.
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { llmcHeaderBytes, llmcMagic, llmcTensors, llmcVersions } from '../checkpoint/llmc-model.ts';
import { paddedVocabularySize } from '../model/config.ts';
import { writeDurably } from '../shards/shard.ts';
import { encodeWeights, type OpenWeights, openWeights, type WeightType } from './weights.ts';

/** Writes a checkpoint's weights as llm.c reads them. @throws Gpt2Error if it cannot be read, or the file not written */
export function writeLlmc(path: string, checkpoint: FoundCheckpoint, type: WeightType): void {
  using weights = openWeights(checkpoint);
  writeDurably(path, partsOf(weights, type));
}

function* partsOf({ config, parameters, read }: OpenWeights, type: WeightType): Generator<Uint8Array> {
  const { context, vocabularySize, layers, heads, channels } = config;
  const padded = paddedVocabularySize(config);
  const header = new Int32Array(llmcHeaderBytes / 4);
  header.set([llmcMagic, llmcVersions[type], context, vocabularySize, layers, heads, channels, padded]);
  yield new Uint8Array(header.buffer);
  for (const { name } of llmcTensors(config, padded)) {
    for (const parameter of parameters.filter((each) => each.name.split('.').at(-1) === name)) {
      yield encodeWeights(read(parameter), type);
      const padding = (parameter.shape[0]! - parameter.rows) * (parameter.shape[1] ?? 1);
      if (padding > 0) yield encodeWeights(new Float32Array(padding), type);
    }
  }
}
