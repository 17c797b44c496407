// Reads and writes llm.c's model file: 256 int32 (magic 20240326, version, sizes), then the parameters in fp32 or bf16; a tensor has
// all layers of a parameter. The file includes padding rows of the vocabulary.
import { closeSync, fstatSync } from 'node:fs';
import { dirname } from 'node:path';
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { Gpt2Error } from '../errors.ts';
import { fromBf16 } from '../files/half-floats.ts';
import { checkConfig, type ModelConfig, paddedVocabularySize } from '../model/config.ts';
import { parameterCount, realCount } from '../model/parameters.ts';
import { writeDurably } from '../shards/shard.ts';
import { encodeWeights, type OpenWeights, openWeights, type WeightType } from './checkpoint-weights.ts';
import { openStoredFile, readStored } from './stored-file.ts';
import { modelPaths, type StoredModel } from './stored-model.ts';

export const llmcMagic = 20240326;
/** The header's version, by element type. */
export const llmcVersions = { fp32: 3, bf16: 5 } as const;
export const llmcHeaderBytes = 1024;

/** A tensor of the file: one parameter of all layers, or a parameter outside the layers. */
interface LlmcTensor {
  /** The name in our table without the layer: "qkvw". */
  readonly name: string;
  readonly layers: number;
  /** Elements of one layer. */
  readonly count: number;
}

/** The tensors of a file in order. `rows`: the rows of wte, the padded vocabulary. */
export function llmcTensors({ layers, channels: C, context }: ModelConfig, rows: number): LlmcTensor[] {
  const whole = (name: string, count: number): LlmcTensor => ({ name, layers: 1, count });
  const perLayer = (name: string, count: number): LlmcTensor => ({ name, layers, count });
  return [
    whole('wte', rows * C),
    whole('wpe', context * C),
    perLayer('ln1w', C),
    perLayer('ln1b', C),
    perLayer('qkvw', 3 * C * C),
    perLayer('qkvb', 3 * C),
    perLayer('attprojw', C * C),
    perLayer('attprojb', C),
    perLayer('ln2w', C),
    perLayer('ln2b', C),
    perLayer('fcw', 4 * C * C),
    perLayer('fcb', 4 * C),
    perLayer('fcprojw', 4 * C * C),
    perLayer('fcprojb', C),
    whole('lnfw', C),
    whole('lnfb', C),
  ];
}

/** Opens a file and checks its header and size. @throws Gpt2Error naming the problem and the tensor */
export const openLlmcModel = (path: string): StoredModel => openStoredFile(path, (file) => reader(path, file));

function reader(path: string, file: number): StoredModel {
  const { model, rows, elementBytes } = readHeader(path, file);
  const starts = new Map<string, { start: number; count: number }>();
  let next = llmcHeaderBytes;
  for (const { name, layers, count } of llmcTensors(model, rows)) {
    starts.set(name, { start: next, count });
    next += layers * count * elementBytes;
  }
  let open = true;
  const close = () => {
    if (open) closeSync(file);
    open = false;
  };
  return {
    path,
    model,
    read(parameter) {
      if (!open) throw new Gpt2Error(`${path} is closed`);
      const [, layer, name] = /^(?:h\.(\d+)\.)?(\w+)$/.exec(parameter.name)!;
      const { start, count } = starts.get(name!)!;
      const wanted = realCount(parameter);
      const values = elementBytes === 4 ? new Float32Array(wanted) : new Uint16Array(wanted);
      const position = start + Number(layer ?? 0) * count * elementBytes;
      readStored(file, new Uint8Array(values.buffer), position, `${parameter.name} of ${path}`);
      return values instanceof Float32Array ? values : fromBf16(values);
    },
    close,
    [Symbol.dispose]: close,
  };
}

interface Header {
  readonly model: ModelConfig;
  /** Rows of wte. */
  readonly rows: number;
  readonly elementBytes: number;
}

function readHeader(path: string, file: number): Header {
  const refuse = (what: string): never => {
    throw new Gpt2Error(`${path} is not a model file of llm.c: ${what}; name ${modelPaths}`);
  };
  const stats = fstatSync(file);
  refuseOtherFormat(path, file, stats.size);
  if (stats.size < llmcHeaderBytes) return refuse(`it has ${stats.size} bytes, less than the header's 1024`);
  const header = new Int32Array(llmcHeaderBytes / 4);
  readStored(file, new Uint8Array(header.buffer), 0, `the header of ${path}`);
  const [magic, version, context, vocabularySize, layers, heads, channels, rows] = header as unknown as number[];
  if (magic !== llmcMagic) return refuse(`it begins with ${magic}, not ${llmcMagic}`);
  const { fp32, bf16 } = llmcVersions;
  if (version !== fp32 && version !== bf16)
    return refuse(`its version is ${version}, not ${fp32} (fp32) or ${bf16} (bf16)`);
  const model = { layers, channels, heads, context, vocabularySize } as ModelConfig;
  try {
    checkConfig(model);
  } catch (cause) {
    return refuse((cause as Error).message);
  }
  if (rows! < vocabularySize!) return refuse(`its wte has ${rows} rows for a vocabulary of ${vocabularySize}`);
  const elementBytes = version === fp32 ? 4 : 2;
  const elements = parameterCount(model) + (rows! - vocabularySize!) * channels!;
  const expected = llmcHeaderBytes + elements * elementBytes;
  if (stats.size !== expected) return refuse(wrongSize(stats.size, expected, llmcTensors(model, rows!), elementBytes));
  return { model, rows: rows!, elementBytes };
}

/** Rejects other weights files that users may have. @throws Gpt2Error saying what to name instead */
function refuseOtherFormat(path: string, file: number, size: number): void {
  const head = Buffer.alloc(Math.min(size, 9));
  readStored(file, head, 0, `the header of ${path}`);
  const begins = (text: string) => head.toString('latin1').startsWith(text);
  if (begins('GGUF')) {
    throw new Gpt2Error(`${path} is a GGUF file, which cannot be read; name ${modelPaths}`);
  }
  // The length of its header, then the header's JSON.
  if (head[8] === 0x7b && head.readUInt32LE(4) === 0) {
    throw new Gpt2Error(`${path} is a safetensors file without a configuration: name its folder, ${dirname(path)}`);
  }
  if (begins('PK')) {
    throw new Gpt2Error(
      `${path} is a PyTorch file: save the model with transformers' save_pretrained, and name its folder`,
    );
  }
}

/** Describes a wrong size. Products of int32 sizes are exact in double, or larger than any file. */
function wrongSize(size: number, expected: number, tensors: readonly LlmcTensor[], elementBytes: number): string {
  if (size > expected) return `${size - expected} bytes follow its last tensor, lnfb`;
  let end = llmcHeaderBytes;
  const torn = tensors.find(({ layers, count }) => {
    end += layers * count * elementBytes;
    return end > size;
  });
  return `it has ${size} bytes of ${expected} and ends in ${torn?.name}; copy it again`;
}

/** Writes a checkpoint's weights as llm.c reads them. @throws Gpt2Error if it cannot be read or the file cannot be written */
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
