// Wrong options, given to the API and on the command line: both refuse them with one exact message before they open anything.
// Errors and notices of public functions name options as a program gives them; those of commands name flags (refusals.test.ts).
import { mkdirSync } from 'node:fs';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { UsageError } from '../../src/base/errors.ts';
import { speakFlags, words } from '../../src/base/wording.ts';
import * as api from '../../src/index.ts';
import { runPresetNames } from '../../src/options/presets.ts';
import { flagOf } from '../../src/options/row.ts';
import { type OptionName, optionRows } from '../../src/options/table.ts';
import { tinyModel, withCode, wordsOf, workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';

speakFlags(false);

const place = workplace();

type Options = Record<string, unknown>;
/** `flags`: the same wrong value as it is typed; its message names flags instead of options. */
type Row = [options: Options, message: string, flags?: string];

const whole = 'takes a whole number of at least 1';
const real = 'takes a number of at least 0';
const wsd = 'give schedule wsd too';
const falls = 'leave out schedule, or take one that falls: cosine, linear, wsd, trapezoid';
const rows: Row[] = [
  [{ stepps: 3 }, 'there is no option "stepps"; did you mean "steps"?'],
  [{ lr: 1 }, 'there is no option "lr"; did you mean "learningRate"?'],
  [{ 'grad-clip': 1 }, 'there is no option "grad-clip"; did you mean "gradientClip"?'],
  [{ learning_rate: 1 }, 'there is no option "learning_rate"; did you mean "learningRate"?'],
  [{ setps: 3 }, 'there is no option "setps"; did you mean "steps"?'],
  [{ constructor: 3 }, 'there is no option "constructor"; `gpt2 train --help` lists the options'],
  [{ steps: 2.5 }, `steps ${whole}, not 2.5`, '--steps 2.5'],
  [{ steps: '3' }, `steps ${whole}, not "3"`],
  [{ steps: null }, `steps ${whole}, not null`],
  [{ order: 'x' }, 'order takes one of llmc, file, sequence, not "x"', '--order x'],
  [{ gradientClip: -1 }, `gradientClip ${real}, not -1`, '--grad-clip -1'],
  [{ learningRate: -1 }, `learningRate ${real}, not -1`, '--lr -1'],
  [{ learningRate: Number.NaN }, `learningRate ${real}, not NaN`, '--lr NaN'],
  [
    { schedule: 'cosin' },
    'schedule takes one of cosine, linear, constant, wsd, trapezoid, not "cosin"; did you mean cosine?',
    '--schedule cosin',
  ],
  [
    { schedule: 'constant', finalLearningRateFraction: 0.1 },
    `finalLearningRateFraction 0.1 has no effect with schedule constant; ${falls}`,
    '--schedule constant --final-lr-frac 0.1',
  ],
  [
    { schedule: 'linear', decayFraction: 0.1 },
    `decayFraction 0.1 has no effect with schedule linear; ${wsd}`,
    '--schedule linear --decay-frac 0.1',
  ],
  [{ decayFraction: 0.1 }, `decayFraction 0.1 has no effect with schedule cosine; ${wsd}`, '--decay-frac 0.1'],
  [{ batch: '4' }, 'batch takes a whole number from 1 to 65536 or auto, not "4"', '--batch some'],
  [
    { valTokens: 0 },
    'valTokens takes a whole number of at least 1, also as 1.5k, 10M or 1B or all, not 0',
    '--val-tokens some',
  ],
  [
    { valSteps: 2, valTokens: 'all' },
    'valTokens all and valSteps 2 exclude each other: give one of them',
    '--val-steps 2 --val-tokens all',
  ],
  [{ resume: 'yes' }, 'resume takes true, false or auto, not "yes"'],
  [{ preset: 'laptop' }, `preset takes one of ${runPresetNames.join(', ')}, not "laptop"`, '--preset laptop'],
  [{ dtype: 'bf61' }, 'dtype takes one of fp32, tf32, bf16, fp8, not "bf61"; did you mean bf16?', '--dtype bf61'],
  [{ recipe: 'modren' }, 'recipe takes one of modern, windowed, not "modren"; did you mean modern?', '--recipe modren'],
  [{ data: '' }, 'data takes a text, not ""', "--data ''"],
];

describe.each(rows)('%j', (options, message, flags) => {
  const given = (): Options => ({ data: 'no-such-folder', out: 'no-such-run', device: 'cpu', ...options });

  it('train(), trainEvents() and planRun() refuse it', async () => {
    const error = new UsageError(message);
    await expect(api.train(given())).rejects.toThrow(error);
    await expect(api.trainEvents(given()).next()).rejects.toThrow(error);
    await expect(api.planRun(given())).rejects.toThrow(error);
  });

  it.runIf(flags)('train refuses its flag', async () => {
    speakFlags();
    const { stderr } = withCode(2, await place.here(`train --data no-such-folder ${tinyModel.join(' ')} ${flags}`));
    speakFlags(false);
    const names = new RegExp(`\\b(schedule|${Object.keys(options).join('|')})\\b`, 'g');
    const inFlags = message.replaceAll(names, (name) => flagOf(optionRows[name as OptionName]));
    const typed = wordsOf(flags!).at(-1);
    expect(stderr).toBe(`${inFlags.replace(/, not [^;]*/, `, not "${typed}"`)}\n`);
  });
});

it('errors of train() name options, and commands as they are typed', async () => {
  const { message, stack } = (await api.train({ data: 'nope', device: 'cpu' }).catch((error: Error) => error)) as Error;
  expect(message).toMatch(/^nope does not exist; name another(, such as .*)?, or make it: `np.* prepro.* --out nope`$/);
  expect(stack).toContain(message);
  const [data, out] = [place.data({ vocabulary: 100 }), place.path('run')];
  const options = { ...tinyRun, data, out, steps: 1, valSteps: 1, valEvery: undefined };
  const number = expect.any(Number);
  expect(await api.train(options)).toEqual({ out, steps: 1, loss: number, valLoss: number });
  await expect(api.train(options)).rejects.toThrow(
    'already holds a run: continue it with resume: true, replace it with overwrite: true, or name another path as out',
  );
  const onNotice = vi.fn();
  const again = await api.train({ ...options, resume: true }, { onNotice });
  expect(again.valLoss).toBeGreaterThan(0);
  expect(onNotice).toBeCalledWith(expect.stringContaining('give a larger steps to continue'));
});

const division = { prefix: 'x', shardTokens: 100, validation: 0.1 };
/** Passes for a device, a model and a cache, which are not used. */
const object = { allocate: 0, activations: 0, window: 0, config: { vocabularySize: 65 } } as never;
const five = 5 as never;
const twoRanks = { RANK: '0', WORLD_SIZE: '2', MASTER_ADDR: 'localhost', MASTER_PORT: '9' };
const adamw = new api.AdamW({ weightDecay: 0 });
const source = '__global__ void fill(float *out) {}';
const described = { ...(object as object), description: { library: 'cpu' } } as never;
const promise = Promise.resolve() as never;
const circular = [] as never[];
circular.push(circular as never);
const textOptions = { out: 'x', format: { kind: 'text' }, division } as const;
const takers: ((given: never) => unknown)[] = [
  (given) => api.train(given),
  (given) => api.trainEvents(given).next(),
  (given) => api.planRun(given),
  (given) => api.Device.open(given),
  (given) => api.createModel(object, given, object),
  (given) => new api.AdamW(given),
  (given) => new api.Muon(given),
  (given) => new api.Trainer(object, given),
  (given) => new api.KeyValueCache(object, given),
  (given) => api.openLoader(given),
  (given) => api.writeShards('x', [], given),
  (given) => api.prepareDataset('own-source', given),
  (given) => api.prepareText([], given),
  (given) => api.findInputs([], given),
  (given) => api.saveModel(object, 'x', given),
  (given) => api.exportModel(given),
  (given) => api.writeCheckpoint(given),
  (given) => api.resolveWeights('x', given),
  (given) => api.generateText(object, '', given),
  (given) => api.generate(object, given).next(),
  (given) => api.evaluate(object, given),
];
it.each<[shown: string, given: unknown]>([
  ['a Promise: await it', promise],
  ['["a"]', ['a']],
  ['an object of Map', new Map()],
  ['an object of AbortController', new AbortController()],
])('options takes an object, not %s', async (shown, given) => {
  const refusal = new UsageError(`options takes an object, not ${shown}`);
  for (const take of takers) await expect((async () => take(given as never))(), String(take)).rejects.toThrow(refusal);
});

const tokenizer = 'bytes' as never;
const model = 'runs/mine' as never;
const generate = (prompts: unknown) => api.generate(object, { prompts: prompts as never, tokens: 1, seed: 1 }).next();

const calls: Record<string, (() => unknown) | (() => unknown)[]> = {
  'there is no option "onevents"; did you mean "onEvent"?': () => api.train({}, { onevents: 1 } as never),
  'signal takes an AbortSignal, not an object of AbortController': () =>
    api.train({}, { signal: new AbortController() as never }),
  'hooks takes an object, not null': () => api.train({}, null as never),
  'rank takes a whole number from 0 to 65535, not undefined': () => api.train({}, { place: {} as never }),
  'rank takes a whole number from 0 to 1, not 3': () =>
    api.train({}, { place: { ...api.placeFromEnvironment(twoRanks)!, rank: 3 } }),
  'options takes an object, not undefined': () => api.train(undefined as never),
  'kind takes one of cpu, cuda, not "gpu"': () => api.Device.open({ kind: 'gpu' } as never),
  'threads takes a whole number from 0 to 1024, not "2"': () => api.Device.open({ kind: 'cpu', threads: '2' } as never),
  'device takes auto, cpu, cuda or cuda:N, not "tpu"': () => api.selectDevice('tpu'),
  'seed takes a whole number from 0 to 4294967295, not undefined': () =>
    api.openLoader({ shards: [], batch: 1, sequence: 1, order: 'file', vocabularySize: 8 } as never),
  'there is no option "seq"; the options are shards, batch, sequence, order, seed, vocabularySize, rank, ranks, endOfText':
    () => api.openLoader({ shards: [], seq: 1 } as never),
  'there is no option "recompte"; did you mean "recompute"?': () =>
    api.createModel(object, api.presetConfig('d6')!, { B: 1, T: 8, purpose: 'inference', recompte: 'gelu' } as never),
  'layers takes a whole number from 1 to 1000, not 1000000000': () => made({ layers: 1e9, channels: 2 ** 30 }),
  'endOfText goes with documentMask: give both': () => made({ endOfText: 0 }),
  'heads takes a whole number of at least 1, not undefined': () =>
    api.createModel(object, { layers: 1, channels: 8 } as never, object),
  'texts takes a whole number of at least 1, not 0': () => new api.KeyValueCache(object, { texts: 0, window: 8 }),
  'window takes a whole number from 1 to 64, not 65': () =>
    new api.KeyValueCache({ ...(object as object), config: small } as never, { texts: 1, window: 65 }),
  'gradientClip takes a number of at least 0, not undefined': () =>
    new api.Trainer(object, { batch: 1, sequence: 8, accumulation: 1, optimizer: adamw } as never),
  'weightDecay takes a number of at least 0, not -1': () => new api.AdamW({ weightDecay: -1 }),
  'batch takes a whole number of at least 1, not "4"': () =>
    api.evaluate(object, { shards: [], tokenizer: 'gpt2', batch: '4', sequence: 8 } as never),
  'there is no option "batches"; did you mean "tokens"?': () =>
    api.evaluate(object, { shards: [], batch: 4, sequence: 8, batches: 2 } as never),
  'sequence takes a whole number of at least 1, not 0.5': () =>
    api.scoreHellaswag(object, object, { batch: 1, sequence: 0.5 }),
  'there is no option "squence"; did you mean "sequence"?': () => api.readHellaswag('none', { squence: 1 } as never),
  '257 is no token of the vocabulary of 257; give whole numbers from 0 to 256': () =>
    api.decode([257], api.tokenizerNamed('bytes')),
  'id takes a whole number of at least 0, not NaN': () => new api.StreamDecoder().push(Number.NaN),
  'seed takes a whole number from 0 to 4294967295, not -1': () => api.initializeWeights(object, -1),
  'prompt takes a text, not undefined': () => api.generateText(object, undefined as never),
  'there is no option "topk"; did you mean "topK"?': [
    () => api.generateText(object, '', { topk: 2 } as never),
    () => api.generate(object, { prompts: [], tokens: 1, seed: 1, topk: 2 } as never).next(),
  ],
  "the tokenizer gpt2 has 50257 ids, over the model's vocabulary of 65; use the model's tokenizer": () =>
    api.generateText(object, '', { tokenizer: api.tokenizerNamed('gpt2') }),
  'batches takes a whole number of at least 1, not 0': () =>
    api.meanLoss(object, { batch: 1, sequence: 8, batches: 0 }, object),
  'topP takes a number from 0 to 1, not 2': () =>
    api.generate(object, { prompts: [], tokens: 1, seed: 1, topP: 2 }).next(),
  'format takes one of hf, llmc, gguf, not "onnx"': () =>
    api.exportModel({ model: 'none', format: 'onnx', out: 'x' } as never),
  'there is no option "overwite"; did you mean "overwrite"?': () =>
    api.prepareDataset('own-source', { overwite: true } as never),
  'shardTokens takes a whole number from 1 to 2147483647, not "9"': () =>
    api.prepareText([], { out: 'x', format: { kind: 'text' }, division: { ...division, shardTokens: '9' } } as never),
  'kind takes one of text, jsonl, not "csv"': () =>
    api.prepareText([], { out: 'x', format: { kind: 'csv' }, division: object } as never),
  'role takes one of split, train, val, not "test"': () => api.findInputs([], { role: 'test' } as never),
  'step takes a whole number of at least 0, not -1': () =>
    api.writeCheckpoint({ folder: 'x', step: -1, manifest: object, model: object, optimizer: object }),
  'tolerance takes a number of at least 0, not NaN': () => api.compareSeries(object, object, Number.NaN),
  'without takes one of train, val, norm, lr, not "loss"': () => api.compareSeries(object, object, 0, ['loss']),
  'text takes a text, not 5': () => api.encode(five),
  'ids takes token ids, not 5': () => api.decode(five),
  'after takes token ids, not 5': () => new api.StreamDecoder(undefined, five),
  'tokenizer takes a tokenizer, such as tokenizerNamed() returns, not "bytes"': [
    ...[() => api.encode('a', tokenizer), () => api.decode([1], tokenizer), () => new api.StreamDecoder(tokenizer)],
    ...[() => api.generateText(object, '', { tokenizer }), () => api.saveModel(object, 'x', { tokenizer })],
  ],
  'tokenizer takes one of gpt2, bytes, or what readDatasetTokenizer() or readTokenizer() returns, not "byte"': [
    ...[() => api.tokenizerNamed('byte'), () => api.writeShards('x', [], { tokenizer: 'byte' })],
    () => api.evaluate(object, { shards: [], batch: 1, sequence: 8, tokenizer: 'byte' }),
  ],
  'tokenizer takes a tokenizer, such as tokenizerNamed() returns, not an object': [
    () => api.writeShards('x', [], { tokenizer: {} as never }),
    () => api.evaluate(object, { shards: [], batch: 1, sequence: 8, tokenizer: {} as never }),
  ],
  'hooks takes an object, not a Promise: await it': () => api.train({}, promise),
  'place takes an object, not a Promise: await it': () => api.train({}, { place: promise }),
  'options takes an object, not an object of Map': () => api.train({}, new Map() as never),
  'tokenizer takes a text or an object, not a Promise: await it': () =>
    api.writeShards('x', [], { tokenizer: promise }),
  'path takes a text, not 5': [() => api.resolveWeights(five), () => api.readTokenizer(five)],
  'path takes a text, not a Promise: await it': () => api.loadCards(promise),
  'cards takes what loadCards() returns, not a Promise: await it': () => api.useCards(object, promise),
  'device takes what Device.open() returns, not a Promise: await it': [
    () => api.useCards(promise, []),
    () => api.compileKernels(promise, { source }),
  ],
  'there is no option "check"; did you mean "checks"?': () => api.useCards(object, [], { check: true } as never),
  'the macro N takes a text or a number, not undefined': () =>
    api.compileKernels(described, { source, defines: { N: undefined as never } }),
  'json has no effect in train(), which prints nothing; take the json of onEvent': () =>
    api.train({ json: true, device: 'cpu' }),
  'folder takes a text, not undefined': () => api.listCheckpoints(undefined as never),
  'type takes one of fp32, bf16, fp8, int8, int32, fp16, fp64, uint8, not "half"': () =>
    api.tensorOf(object, new Float32Array(1), [1], 'half' as never),
  'inputs takes what findInputs() returns, not a Promise: await it': () => api.prepareText(promise, textOptions),
  'inputs takes what findInputs() returns, not "a.txt"': () => api.prepareText(['a.txt'] as never, textOptions),
  'run takes the series of a run, such as readRun().series, not a Promise: await it': () =>
    api.compareSeries(promise, object),
  'reference takes what readReference() returns, or a run with its name, not a Promise: await it': () =>
    api.compareSeries({ train: [] } as never, promise),
  'without takes texts, not a Promise: await it': () => api.compareSeries(object, object, 0, promise),
  'text takes a text, not 5n': () => api.encode(5n as never),
  'text takes a text, not [5n,NaN,["a",undefined]]': () => api.encode([5n, Number.NaN, ['a', undefined]] as never),
  'text takes a text, not [[[an array]]]': () => api.encode(circular as never),
  'hellaswag takes what readHellaswag() returns, not a Promise: await it': () =>
    api.scoreHellaswag(object, promise, { batch: 1, sequence: 8 }),
  'checkpoint takes what resolveCheckpoint() returns, not "runs/mine"': [
    () => api.loadWeights(model, object),
    () => api.loadOptimizer(model, object, []),
  ],
  "config takes a model's configuration, such as presetConfig() returns for a known name, not undefined": [
    () => api.parameterCount(api.presetConfig('d7')!),
    () => api.parameterTable(api.presetConfig('d7')!),
  ],
  'path takes a text, not ""': [() => api.resolveWeights(''), () => api.resolveCheckpoint('')],
  'run takes a text, not 5': () => api.readRun(five),
  'folder takes a text, not 5': [() => api.findShards(five, 'val'), () => api.readDataset(five)],
  'role takes one of train, val, not "test"': () => api.findShards('x', 'test' as never),
  'paths takes texts, not "a"': () => api.findInputs('a' as never),
  'documents takes texts, not "a"': () => api.writeShards('x', 'a'),
  'validation takes texts, not "a"': () => api.writeShards('x', [], { validation: 'a' }),
  'there is no option "val"; the options are tokenizer, validation, overwrite, lossy, notice': () =>
    api.writeShards('x', [], { val: 1 } as never),
  'device takes what Device.open() returns, not 5': () => api.tensorOf(five, new Float32Array()),
  'shape takes an array of numbers, not 5': () => api.tensorOf(object, new Float32Array(), five),
  'batch takes an object, not 5': () => api.logits(object, five),
  'inputs takes an array of numbers, not undefined': () => api.logits(object, {} as never),
  'tokens takes an array of numbers, not 5': () => api.lossesOf(object, five),
  'nextBatch takes a function that returns a batch, such as () => loader.next(), not 5': () =>
    api.meanLoss(object, { batch: 1, sequence: 8, batches: 1 }, five),
  'cache takes a KeyValueCache, not 5': () => api.generate(five, { prompts: [], tokens: 1, seed: 1 }).next(),
  'prompts takes arrays of ids, not null': () => generate(null),
  'a prompt takes an array of numbers, not 15496': () => generate([15496, 995]),
  'model takes what createModel() returns (resolveWeights() reads weights), not "runs/mine"': [
    ...[() => api.generateText(model, 'x'), () => api.saveModel(model, 'x'), () => api.initializeWeights(model, 1)],
    ...[() => new api.Trainer(model, object), () => new api.KeyValueCache(model, object)],
    ...[() => api.evaluate(model, object), () => api.meanLoss(model, object, object)],
    ...[() => api.scoreHellaswag(model, object, { batch: 1, sequence: 1 }), () => api.weightsHash(model)],
    () => api.loadWeights({ manifest: {} } as never, model),
    () => api.writeCheckpoint({ folder: 'x', step: 0, manifest: object, model, optimizer: [] }),
  ],
  ...Object.fromEntries(
    [-1, 1.5, 50257, '5', null].map((id) => [
      `${JSON.stringify(id)} is no token of the vocabulary of 50257; give whole numbers from 0 to 50256`,
      () => api.decode([15496, id as number]),
    ]),
  ),
};

it.each(Object.entries(calls))('%s', async (message, calls) => {
  for (const call of [calls].flat())
    await expect((async () => call())(), String(call)).rejects.toThrow(new UsageError(message));
});

beforeAll(() => {
  place.data({ name: 'random' });
  for (const name of ['alone', 'alone/none']) mkdirSync(place.path(name));
  place.file('a.txt', 'a few words');
});

const text = (more: object, from = 'a.txt') =>
  api.prepareText(api.findInputs([place.path(from)]), {
    ...{ out: place.path('random'), format: { kind: 'text' }, division, workers: 1, ...more },
  } as never);
const train = (name: string) => api.findShards(name.startsWith('data/') ? name : place.path(name), 'train');
const shards = () => train('random');
const load = (batch: number, sequence: number) =>
  api.openLoader({ shards: shards(), batch, sequence, order: 'file', seed: 42, vocabularySize: 50257 });
const exported = (format: api.ExportFormat, out = 'new', more: object = {}) =>
  api.exportModel({ model: 'd6', format, out: place.path(out), ...more });
const small = { layers: 1, channels: 16, heads: 2, context: 64, vocabularySize: 50257 };
const made = (more: object) => api.createModel(object, { ...small, ...more }, { B: 1, T: 8, purpose: 'inference' });

/** Must be an instance. */
class Batches {}

/** By the whole message. */
const exact: Record<string, () => unknown> = {
  'd6 is a size of new models and has no weights; name a trained model': () => exported('hf'),
  'format llmc writes fp32 or bf16, not fp16: give another dtype': () => exported('llmc', 'new', { dtype: 'fp16' }),
  'validation takes a number over 0 and under 1 or first shard, not 1': () =>
    text({ division: { ...division, validation: 1 } }),
  'separator takes a text, not "": leave it out if a file is a document': () =>
    text({ format: { kind: 'text', separator: '' } }),
  'tokenizer takes gpt2, bytes, char, a tokenizer.json or a folder that has one, not "gpt4"': () =>
    text({ tokenizer: 'gpt4' }),
  'channels 16 are not divisible by heads 3; give heads that divide channels': () => made({ heads: 3 }),
  'rotaryBase 100 has no effect with positions learned; give positions rotary too': () => made({ rotaryBase: 100 }),
  'warmup 100 is over steps 20; take a shorter warmup (from preset shakespeare-laptop: warmup 100)': () =>
    api.train({ preset: 'shakespeare-laptop', data: place.path('random'), steps: 20 }),
  'T takes a whole number from 1 to 7, not 8': () => made({ context: 7 }),
  'sample takes a whole number of at least 0, not 1.5': () => {
    using loader = load(1, 8);
    loader.seek({ epoch: 0, shard: 0, sample: 1.5 });
  },
  'position takes an object, not undefined': () => {
    using loader = load(1, 8);
    loader.seek(undefined as never);
  },
  'batches must be an object with next(), or a function of { rank, ranks } that returns one': () =>
    api.train({ ...tinyRun, data: place.path('random'), out: place.path('x'), steps: 1, batches: Batches as never }),
  'own-source takes no from: leave it out, its files come with the package': () =>
    api.prepareDataset('own-source', { from: 'x' }),
};
const matching: [message: RegExp, work: () => unknown][] = [
  [/rando does not exist; did you mean .*random\?$/, () => train('rando')],
  [/alone\/no does not exist; name another.*, or make it: `np.* prepro .*--out .*alone\/no`$/, () => train('alone/no')],
  [
    /^there is no data in .*tinystories: run `(npm run|npx gpt2) prepro tinystories`, or name another folder$/,
    () => train('data/own-source-of-tests/../tinystories'),
  ],
  [/a\.txt cannot be read as a folder of token shards: .*; name another$/, () => train('a.txt')],
  [/a\.txt already exists: name another path as out, or remove it$/, () => exported('gguf', 'a.txt')],
  [/random_train\.bin, which belongs to .*: name another folder$/, () => text({})],
  [/sequences of 64; the largest batch that fits is \d+$/, () => load(1000, 64)],
  [/too few for a sequence of 5001; sequence must be under 5000$/, () => load(1, 5001)],
  [
    /^there are no questions in .*none\.bin: run `(npm run|npx gpt2) prepro hellaswag`, or name a file$/,
    () => api.readHellaswag(place.path('none.bin'), { sequence: 64, vocabularySize: 50257 }),
  ],
];

it.each([...Object.entries(exact), ...matching])('%s', async (message, work) => {
  const error = (await (async () => work())().catch((error: unknown) => error)) as Error;
  if (typeof message === 'string') expect(error.message).toBe(message);
  else expect(error.message).toMatch(message);
  expect(error.stack).toContain(error.message);
});

it('prepareText: notices too', async () => {
  const notice = vi.fn();
  place.file('long.txt', 'a word and another\n'.repeat(300));
  await text({ out: place.path('made'), division: { ...division, validation: 0.001 }, notice }, 'long.txt');
  expect(notice.mock.calls.join()).toMatch(/^validation is .*; give more text, or another validation$/);
});

it('a stopped run says how to continue it', async () => {
  const out = place.path("it's mine");
  const options = { ...tinyRun, data: place.path('random'), out, steps: 2 };
  const message = `stopped after 0 of 2 steps and saved; continue with { out: ${JSON.stringify(out)}, resume: true }`;
  const stopped = new api.StoppedError(message, undefined);
  await expect(api.train(options, { signal: AbortSignal.abort() })).rejects.toThrow(stopped);
});

it('flags are named as options, values and commands are not', () => {
  const path = 'runs/--data/x';
  expect(words`${path} of --data: give --total-batch, or --out ${'--seq'}; run \`eval --data ${path} --seq 4\``).toBe(
    'runs/--data/x of data: give totalBatch, or out --seq; run `eval --data runs/--data/x --seq 4`',
  );
  expect(words`--kernel is one with --dtype, another --out, --resume, --no-resume`).toBe(
    'kernels is one with the option dtype, another path as out, resume: true, resume: false',
  );
});
