// Reads and writes llm.c's model file: 256 int32 (magic 20240326, version, sizes), then the parameters in fp32 or bf16; one
// tensor holds the same parameter of all layers. The file includes the padding rows of the vocabulary.
import { attempt, Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { fromBf16 } from '../../base/files/half-floats.ts';
import { writeDurably } from '../../data/shards/shard.ts';
import { checkConfig, type ModelConfig, paddedVocabularySize } from '../../model/config.ts';
import { parameterCount, parameterTable, realCount } from '../../model/parameters.ts';
import { elementCount } from '../../native/element-types.ts';
import { readerOf, StoredFile } from '../files/stored-file.ts';
import { encodeWeights } from '../files/weight-types.ts';
import type { ModelFormat, StoredModel } from './stored-model.ts';

export const llmcMagic = 20240326;
/** The header's version, by element type. */
export const llmcVersions = { fp32: 3, bf16: 5 } as const;
export const llmcHeaderBytes = 1024;

/**
 * The tensors of a file, in `parameterTable`'s order: each holds one parameter of all layers, or a parameter outside the layers.
 * `name`: the parameter's name without its layer, "qkvw"; `count`: elements of one layer.
 * @param rows number of rows of wte: the padded vocabulary
 */
export function llmcTensors(config: ModelConfig, rows: number) {
  return parameterTable({ ...config, layers: 1 }).map(({ name, shape }) => ({
    name: name.replace('h.0.', ''),
    layers: name.startsWith('h.') ? config.layers : 1,
    count: name === 'wte' ? rows * config.channels : elementCount(shape),
  }));
}

export const llmc: ModelFormat = {
  named: "llm.c's model .bin",
  description: "llm.c's model .bin, fp32 or bf16",
  types: ['fp32', 'bf16'],
  assumesGpt2: "llm.c's format holds no tokenizer: its programs decode with GPT-2's",
  recognises: (_, head = '') => head.startsWith(Buffer.from(Int32Array.of(llmcMagic).buffer).toString('latin1')),
  open: (path, others) => readerOf(new StoredFile(path), (file) => reader(file, others)),
  write: (path, weights, type) => writeDurably(path, partsOf(weights, type as keyof typeof llmcVersions)),
};

function reader(file: StoredFile, others: string): Omit<StoredModel, typeof Symbol.dispose> {
  const { model, rows, elementBytes } = readHeader(file, others);
  const starts = new Map<string, { start: number; count: number }>();
  let next = llmcHeaderBytes;
  for (const { name, layers, count } of llmcTensors(model, rows)) {
    starts.set(name, { start: next, count });
    next += layers * count * elementBytes;
  }
  return {
    model,
    read(parameter) {
      const [, layer, name] = /^(?:h\.(\d+)\.)?(\w+)$/.exec(parameter.name)!;
      const { start, count } = starts.get(name!)!;
      const wanted = realCount(parameter);
      const values = elementBytes === 4 ? new Float32Array(wanted) : new Uint16Array(wanted);
      const position = start + Number(layer ?? 0) * count * elementBytes;
      file.read(new Uint8Array(values.buffer), position, `${parameter.name} of ${file.path}`);
      return values instanceof Float32Array ? values : fromBf16(values);
    },
  };
}

/** Reads the header: the sizes of the model, the number of rows of wte, and the bytes of an element. @throws Gpt2Error */
function readHeader(file: StoredFile, others: string) {
  const { path, bytes } = file;
  const refuse = (what: string): never => {
    throw gpt2Error`${path} is not a model file of llm.c: ${what}; name ${others}`;
  };
  if (bytes < llmcHeaderBytes) return refuse(`it has ${bytes} bytes, less than the header's 1024`);
  const header = new Int32Array(llmcHeaderBytes / 4);
  file.read(new Uint8Array(header.buffer), 0, `the header of ${path}`);
  const [magic, version, context, vocabularySize, layers, heads, channels, rows] = header as unknown as number[];
  if (magic !== llmcMagic) return refuse(`it begins with ${magic}, not ${llmcMagic}`);
  const { fp32, bf16 } = llmcVersions;
  if (version !== fp32 && version !== bf16)
    return refuse(`its version is ${version}, not ${fp32} (fp32) or ${bf16} (bf16)`);
  const model = { layers, channels, heads, context, vocabularySize } as ModelConfig;
  const checked = attempt(() => checkConfig(model));
  if (checked instanceof Gpt2Error) return refuse(checked.message);
  if (rows! < vocabularySize!) return refuse(`its wte has ${rows} rows for a vocabulary of ${vocabularySize}`);
  const field = header.findIndex((value, index) => index > 7 && value !== 0);
  if (field >= 0) return refuse(`int ${field} of its header is ${header[field]}, which llm.c leaves at 0`);
  const elementBytes = version === fp32 ? 4 : 2;
  const elements = parameterCount(model) + (rows! - vocabularySize!) * channels!;
  const expected = llmcHeaderBytes + elements * elementBytes;
  if (bytes !== expected) return refuse(wrongSize(bytes, expected, llmcTensors(model, rows!), elementBytes));
  return { model, rows: rows!, elementBytes };
}

/** Describes a wrong size. `expected`, a double, is exact up to 2^53, and no file is larger. */
function wrongSize(
  size: number,
  expected: number,
  tensors: ReturnType<typeof llmcTensors>,
  elementBytes: number,
): string {
  if (size > expected) return `${size - expected} bytes follow its last tensor, lnfb`;
  let end = llmcHeaderBytes;
  const torn = tensors.find(({ layers, count }) => {
    end += layers * count * elementBytes;
    return end > size;
  });
  return `it has ${size} bytes of ${expected} and ends in ${torn?.name}; copy it again`;
}

function* partsOf({ model, read }: StoredModel, type: keyof typeof llmcVersions): Generator<Uint8Array> {
  const { context, vocabularySize, layers, heads, channels } = model;
  const padded = paddedVocabularySize(model);
  const parameters = parameterTable(model);
  const header = new Int32Array(llmcHeaderBytes / 4);
  header.set([llmcMagic, llmcVersions[type], context, vocabularySize, layers, heads, channels, padded]);
  yield new Uint8Array(header.buffer);
  for (const { name } of llmcTensors(model, padded)) {
    for (const parameter of parameters.filter((each) => each.name.split('.').at(-1) === name)) {
      yield encodeWeights(read(parameter), type);
      const padding = (parameter.shape[0]! - parameter.rows) * (parameter.shape[1] ?? 1);
      if (padding > 0) yield encodeWeights(new Float32Array(padding), type);
    }
  }
}
