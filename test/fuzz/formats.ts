// Every format that this program reads: complete examples of each, and how a file of it is used. fuzz.test.ts damages copies of the
// examples.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { checkedJson } from '../../src/base/files/checked-json.ts';
import { datasetFile, readDataset } from '../../src/data/shards/dataset-file.ts';
import { readQuestions, writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { openShard, writeShard } from '../../src/data/shards/shard.ts';
import { paddedVocabularySize } from '../../src/model/config.ts';
import { parameterCount, parameterTable } from '../../src/model/parameters.ts';
import { mismatches } from '../../src/options/configuration.ts';
import { readOptions, readOptionsFile } from '../../src/options/read-options.ts';
import { compareSeries } from '../../src/report/compare/compare.ts';
import { type Reference, readReference } from '../../src/report/compare/reference.ts';
import { logPath } from '../../src/runs/paths.ts';
import { readRun } from '../../src/runs/reader.ts';
import { formatEvent } from '../../src/runs/schema.ts';
import { createCharacterTokenizer } from '../../src/tokenizer/character-tokenizer.ts';
import { decode } from '../../src/tokenizer/tokenizer.ts';
import { readTokenizer, tokenizerFile } from '../../src/tokenizer/tokenizer-file.ts';
import {
  type Capture,
  captureFile,
  captureVersion,
  readBatches,
  readCapture,
  tokensFile,
} from '../../src/weights/checkpoint/capture.ts';
import { verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { checkpointVersion, type Manifest } from '../../src/weights/checkpoint/manifest.ts';
import { storedShape } from '../../src/weights/files/layout.ts';
import { manifestFile, optimizerFile, weightsFile } from '../../src/weights/files/names.ts';
import { openSafetensors, writeSafetensors } from '../../src/weights/files/safetensors.ts';
import { openerOf } from '../../src/weights/formats/formats.ts';
import { curve } from '../report/runs-to-draw.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';
import { llmcModelFile } from '../support/llmc-model.ts';
import { randomQuestions } from '../support/questions.ts';

/** A format with a place for its file. */
export interface Format {
  readonly name: string;
  /** Whole files. */
  readonly examples: readonly Uint8Array[];
  /** Where `use` looks for the file. */
  readonly path: string;
  /** Reads the file as the program does, to its end. */
  use(): void;
}

const json = (value: unknown): Buffer => Buffer.from(`${JSON.stringify(value, null, 2)}\n`);

const reference: Reference = {
  name: 'example',
  source: { program: 'llm.c', version: '1', hardware: 'H100', precision: 'fp32', command: 'train' },
  configuration: { model: 'd6', batch: 4, sequence: 64, learningRate: 6e-4, overfitBatch: false },
  series: { train: curve(10.9, 9.8), val: curve(10.9), norm: curve(13.1), lr: curve(1.5e-5) },
  limits: [
    { series: 'train', from: 0, to: 1, within: 1e-3 },
    { series: 'norm', kind: 'mean', from: 0, to: 1, within: 0.1, relativeAbove: { above: 1, within: 0.01 } },
  ],
};

const log = [
  runEvent(),
  { event: 'val', step: 0, loss: 10.9 } as const,
  trainEvent(0, 10.9),
  trainEvent(1, Number.NaN),
  { event: 'sample', step: 2, text: 'ROMEO:\n"\u2028\\' } as const,
  { event: 'checkpoint', step: 2, path: 'runs/x/checkpoints/step-00000002' } as const,
  { ...runEvent(), resumedFrom: 1 },
  trainEvent(1, 9.7),
  { event: 'done', steps: 2, seconds: 1.5, weights: 'a'.repeat(64) } as const,
];

/** All formats, with their files in a folder that is there and empty. */
export function formatsIn(folder: string): Format[] {
  const place = (name: string) => {
    mkdirSync(join(folder, name), { recursive: true });
    return join(folder, name);
  };

  const shard = join(place('shard'), 'tiny_train.bin');
  const ids = Uint16Array.from({ length: 300 }, (_, i) => (i * 7919) % 50257);
  writeShard(shard, ids);

  const tensors = join(place('safetensors'), 'model.safetensors');
  writeSafetensors(tensors, [
    { name: 'wte.weight', shape: [2, 3], read: () => Float32Array.from([1, 2, 3, 4, Number.NaN, 6]) },
    { name: 'empty', shape: [0, 7], read: () => new Float32Array(0) },
    { name: 'scalar', shape: [], read: () => Float32Array.from([7]) },
  ]);
  const halves = JSON.stringify({
    a: { dtype: 'BF16', shape: [2], data_offsets: [0, 4] },
    b: { dtype: 'F16', shape: [1, 3], data_offsets: [4, 10] },
  });
  const halvesExample = Buffer.concat([
    Buffer.from(BigUint64Array.of(BigInt(halves.length)).buffer),
    Buffer.from(halves),
    Buffer.alloc(10, 61),
  ]);

  const model = { layers: 2, channels: 4, heads: 2, context: 16, vocabularySize: 100 };
  const checkpoint = place('step-00000020');
  const values = new Float32Array(parameterCount(model));
  const files = [weightsFile, optimizerFile].map((name) => ({
    name,
    ...writeSafetensors(join(checkpoint, name), [{ name: 'all', shape: [values.length], read: () => values }]),
  }));
  const manifest: Manifest = {
    format: 'gpt2.ts checkpoint',
    version: checkpointVersion,
    program: 'gpt2.ts test',
    step: 20,
    configuration,
    model,
    position: { epoch: 1, shard: 0, sample: 17 },
    logBytes: 1234,
    codePath: 'portable',
    shards: [{ name: 'tiny_train.bin', tokens: 300 }],
    files,
    time: '2026-01-01T00:00:00.000Z',
  };

  const capture = place('capture');
  const rows = [17, 17, 17, 17].flatMap((length) => Array.from({ length }, (_, i) => (i * 31) % 100));
  const tokens = writeShard(join(capture, tokensFile), Uint16Array.from(rows));
  writeFileSync(join(capture, weightsFile), readFileSync(join(checkpoint, weightsFile)));
  const captured: Capture = {
    format: 'gpt2.ts capture',
    version: captureVersion,
    program: 'gpt2.ts test',
    step: 20,
    position: { epoch: 1, shard: 0, sample: 17 },
    model,
    ...{ library: 'cuda', dtype: 'bf16', codePath: 'sm90', batch: 2, sequence: 16, accumulation: 2 },
    ...{ loss: 'NaN', norm: 12.5, gradients: 'c'.repeat(64) },
    finding: { microBatch: 1, layer: 0, op: 'gpt2_matmul_forward', tensor: 'out (h.0.qkv)', value: 'NaN' },
    files: [files[0]!, { name: tokensFile, bytes: 1024 + 2 * rows.length, sha256: tokens.sha256 }],
  };

  const sizes = new Map(parameterTable(model).map(({ name, shape }) => [name, shape.reduce((a, b) => a * b)]));
  sizes.set('wte', paddedVocabularySize(model) * model.channels);
  const llmcExamples = (['fp32', 'bf16'] as const).map((type) =>
    llmcModelFile(model, type, (name) => new Float32Array(sizes.get(name)!)),
  );

  const transformers = place('transformers');
  writeSafetensors(
    join(transformers, weightsFile),
    parameterTable(model).map((parameter) => {
      const shape = storedShape(parameter);
      return { name: parameter.huggingFaceName, shape, read: () => new Float32Array(shape.reduce((a, b) => a * b)) };
    }),
  );
  const transformersConfig = {
    ...{ model_type: 'gpt2', n_layer: 2, n_embd: 4, n_head: 2, n_positions: 16, vocab_size: 100, n_inner: null },
    ...{ activation_function: 'gelu_new', layer_norm_epsilon: 1e-5, tie_word_embeddings: true },
  };

  const questions = join(place('questions'), 'questions.bin');
  writeQuestions(questions, randomQuestions(5, { vocabulary: 100 }));

  const series = { train: [[0, 10.9] as const], val: [], norm: [[0, 13] as const], lr: [] };
  /** Reads every parameter of another program's model. */
  const readModel = (path: string) => {
    using file = openerOf(path)!();
    for (const parameter of parameterTable(file.model)) file.read(parameter);
  };

  const formats: Format[] = [];
  const add = (
    name: string,
    path: string,
    examples: readonly Uint8Array[],
    use: (path: string, folder: string) => unknown,
  ) => formats.push({ name, path, examples, use: () => void use(path, dirname(path)) });

  add('shard', shard, [readFileSync(shard)], (path) => {
    using opened = openShard(path);
    opened.checkTokens(50257);
    opened.read(0, opened.tokens);
  });
  add('safetensors', tensors, [readFileSync(tensors), halvesExample], (path) => {
    using file = openSafetensors(path);
    for (const name of file.names) {
      file.shape(name);
      file.read(name);
    }
  });
  const manifests = [json({ ...manifest, version: 1 }), Buffer.from(checkedJson(manifest))];
  add('manifest', join(checkpoint, manifestFile), manifests, (_, folder) => {
    const found = verifyCheckpoint(folder);
    readOptions(found.manifest.configuration, found.path);
  });
  const captures = [json({ ...captured, version: 1 }), Buffer.from(checkedJson(captured))];
  add('capture', join(capture, captureFile), captures, (_, folder) => readBatches(readCapture(folder)));
  add('llmc-model', join(place('llmc-model'), 'model.bin'), llmcExamples, readModel);
  const config = [json(transformersConfig)];
  add('transformers', join(transformers, 'config.json'), config, (_, folder) => readModel(folder));
  add('questions', questions, [readFileSync(questions)], readQuestions);
  add('log', logPath(place('run')), [Buffer.from(log.map(formatEvent).join(''))], (_, folder) => {
    const record = readRun(folder);
    compareSeries(record.series, reference);
    mismatches(record.configuration, reference);
  });
  add('reference', join(place('reference'), 'reference.json'), [json(reference)], (path) => {
    const read = readReference(path);
    compareSeries(series, read);
    mismatches(configuration, read);
  });
  const ofShard = { file: 'tiny_train.bin', role: 'train', tokens: 300, sha256: 'b'.repeat(64) };
  const dataset = { source: 'tinyshakespeare', tokenizer: 'gpt2', vocabularySize: 50257, shards: [ofShard] };
  add('dataset', join(place('dataset'), datasetFile), [json(dataset)], (_, folder) => readDataset(folder));
  const tokenizers = [
    Buffer.from(createCharacterTokenizer([10, 97, 0x1f99c]).file!),
    json({
      added_tokens: [{ id: 0, content: '</s>', special: true }],
      pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false },
      decoder: { type: 'ByteLevel' },
      model: { type: 'BPE', vocab: { '</s>': 0, a: 1, b: 2, ab: 3 }, merges: [['a', 'b']] },
    }),
  ];
  add('tokenizer', join(place('tokenizer'), tokenizerFile), tokenizers, (path) => {
    const opened = readTokenizer(path);
    // Without it a process decodes, which takes a second to start; tokenizers.slow.test.ts tries it.
    if (opened.bytesOf) decode([0, 1, 2], opened);
  });
  const given = [json(configuration), json({ batch: 4, learningRate: '1e-3', order: 'sequence', overfitBatch: true })];
  add('options', join(place('options'), 'config.json'), given, (path) => readOptionsFile(path));
  return formats;
}
