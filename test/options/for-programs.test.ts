// Errors and notices of public functions name options as a program gives them; the commands' name flags (refusals.test.ts).
import { mkdirSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { speakFlags, words } from '../../src/base/wording.ts';
import {
  createModel,
  Device,
  evaluate,
  exportModel,
  findInputs,
  findShards,
  openLoader,
  prepareDataset,
  prepareText,
  readHellaswag,
  resolveWeights,
  StoppedError,
  train,
} from '../../src/index.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();
beforeAll(() => {
  speakFlags(false);
  place.data();
  for (const name of ['alone', 'alone/none']) mkdirSync(place.path(name));
  writeFileSync(place.path('a.txt'), 'a few words');
});

const division = { prefix: 'x', shardTokens: 100, validation: 0.1 };
const text = (more: object) =>
  prepareText(findInputs([place.path('a.txt')]), {
    ...{ out: place.path('data'), format: { kind: 'text' }, division, workers: 1, ...more },
  } as never);

const shards = () => findShards(place.path('data'), 'train');
const load = (batch: number, sequence: number) =>
  openLoader({ shards: shards(), batch, sequence, order: 'file', seed: 42, vocabularySize: 50257 });
const small = { layers: 1, channels: 16, heads: 2, context: 64, vocabularySize: 50257 };
const measure = (sequence: number) => {
  using device = Device.open({ kind: 'cpu', threads: 1 });
  const model = createModel(device, small, { B: 1, T: 8, purpose: 'inference' });
  return evaluate(model, { shards: shards(), tokenizer: 'gpt2', batch: 1, sequence });
};

const cases: [message: string | RegExp, work: () => unknown][] = [
  [/dat does not exist; did you mean .*data\?$/, () => findShards(place.path('dat'), 'train')],
  [
    /alone\/no does not exist; name another(, such as .*)?, or make it: `(npm run|npx gpt2) prepro .*--out .*alone\/no`$/,
    () => findShards(place.path('alone/no'), 'train'),
  ],
  [
    /^there is no data in .*tinystories: run `(npm run|npx gpt2) prepro tinystories`, or name another folder$/,
    () => findShards('data/own-source-of-tests/../tinystories', 'train'),
  ],
  [
    /a\.txt cannot be read as a folder of token shards: .*; name another$/,
    () => findShards(place.path('a.txt'), 'train'),
  ],
  [
    'gpt2 is a size of new models and has no weights; the pretrained GPT-2 of this size is openai-community/gpt2',
    () => resolveWeights('gpt2'),
  ],
  [
    'd6 is a size of new models and has no weights; name a trained model',
    () => exportModel({ model: 'd6', format: 'hf', out: place.path('new') }),
  ],
  [
    'format llmc writes fp32 or bf16, not fp16: give another dtype',
    () => exportModel({ model: 'd6', format: 'llmc', dtype: 'fp16', out: place.path('new') }),
  ],
  [
    /a\.txt already exists: name another path as out, or remove it$/,
    () => exportModel({ model: 'd6', format: 'gguf', out: place.path('a.txt') }),
  ],
  ['validation takes a number over 0 and under 1, not 1', () => text({ division: { ...division, validation: 1 } })],
  [
    'separator takes a text, not "": leave it out if a file is a document',
    () => text({ format: { kind: 'text', separator: '' } }),
  ],
  [/random_train\.bin, which belongs to .*: name another folder with the option out$/, () => text({})],
  [
    /^tokenizer takes gpt2, bytes, char, a tokenizer\.json or a folder that has one, not "gpt4"$/,
    () => text({ tokenizer: 'gpt4' }),
  ],
  [/sequences of 64; the largest batch that fits is \d+$/, () => load(1000, 64)],
  [/too few for a sequence of 5001; sequence must be under 5000$/, () => load(1, 5001)],
  ["sequence 65 is over the model's context of 64 positions; take a shorter sequence", () => measure(65)],
  [
    /^there are no questions in .*none\.bin: run `(npm run|npx gpt2) prepro hellaswag`, or name a file$/,
    () => readHellaswag(place.path('none.bin'), { sequence: 64, vocabularySize: 50257 }),
  ],
  [
    'channels 16 are not divisible by heads 3; give heads that divide channels',
    () => createModel({} as Device, { ...small, heads: 3 }, { B: 1, T: 8, purpose: 'inference' }),
  ],
  [
    'rotaryBase 100 has no effect with positions learned; give positions rotary too',
    () => createModel({} as Device, { ...small, rotaryBase: 100 }, { B: 1, T: 8, purpose: 'inference' }),
  ],
  [
    'warmup 100 is over steps 20; take a shorter warmup (from preset shakespeare-laptop: warmup 100)',
    () => train({ preset: 'shakespeare-laptop', data: place.path('data'), steps: 20 }),
  ],
  [
    'own-source takes no from: leave it out, its files come with the package',
    () => prepareDataset('own-source', { from: 'x' }),
  ],
];

it.each(cases)('%s', async (message, work) => {
  const error = await Promise.resolve()
    .then(work)
    .catch((error: unknown) => error as Error);
  expect((error as Error).message).toMatch(message);
  if (typeof message === 'string') expect((error as Error).message).toBe(message);
  expect((error as Error).stack).toContain((error as Error).message);
});

it('prepareText: notices too', async () => {
  const notices: string[] = [];
  const notice = (line: string) => void notices.push(line);
  writeFileSync(place.path('long.txt'), 'a word and another\n'.repeat(300));
  const options = { out: place.path('made'), format: { kind: 'text' }, division: { ...division, validation: 0.001 } };
  await prepareText(findInputs([place.path('long.txt')]), { ...options, workers: 1, notice } as never);
  expect(notices.join()).toMatch(/^validation is .*; give more text, or another validation$/);
});

it('a stopped run says how to continue it', async () => {
  const out = place.path("it's mine");
  const small = { layers: 1, channels: 16, heads: 2, context: 16, sequence: 16, batch: 1, device: 'cpu', steps: 2 };
  const options = { ...small, data: place.path('data'), out, valEvery: 0, sampleEvery: 0 };
  await expect(train(options, { signal: AbortSignal.abort() })).rejects.toThrow(
    new StoppedError(
      `stopped after 0 of 2 steps and saved; continue with { out: ${JSON.stringify(out)}, resume: true }`,
      undefined,
    ),
  );
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
