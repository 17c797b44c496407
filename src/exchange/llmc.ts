// llm.c's model file: 256 int32 (magic, version 3 for fp32 and 5 for bf16, sizes), then every kind of parameter for all
// layers together. Its vocabulary is padded as ours, so padding rows are part of the file.
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { paddedVocabularySize } from '../model/config.ts';
import { writeDurably } from '../shards/shard.ts';
import { encodeWeights, type OpenWeights, openWeights, type WeightType } from './weights.ts';

const magic = 20240326;
const versions: Readonly<Record<WeightType, number>> = { fp32: 3, bf16: 5 };

/** In llm.c's order; those of a layer follow each other from the first layer to the last. */
const order = [
  ...['wte', 'wpe'],
  ...['ln1w', 'ln1b', 'qkvw', 'qkvb', 'attprojw', 'attprojb'],
  ...['ln2w', 'ln2b', 'fcw', 'fcb', 'fcprojw', 'fcprojb'],
  ...['lnfw', 'lnfb'],
];

/** Writes a checkpoint's weights as llm.c reads them. @throws Gpt2Error if it cannot be read, or the file not written */
export function writeLlmc(path: string, checkpoint: FoundCheckpoint, type: WeightType): void {
  using weights = openWeights(checkpoint);
  writeDurably(path, partsOf(weights, type));
}

function* partsOf({ config, parameters, read }: OpenWeights, type: WeightType): Generator<Uint8Array> {
  const { context, vocabularySize, layers, heads, channels } = config;
  const padded = paddedVocabularySize(config);
  const header = new Int32Array(256);
  header.set([magic, versions[type], context, vocabularySize, layers, heads, channels, padded]);
  yield new Uint8Array(header.buffer);
  for (const name of order) {
    for (const parameter of parameters.filter((each) => each.name.split('.').at(-1) === name)) {
      yield encodeWeights(read(parameter), type);
      const padding = (parameter.shape[0]! - parameter.rows) * (parameter.shape[1] ?? 1);
      if (padding > 0) yield encodeWeights(new Float32Array(padding), type);
    }
  }
}
