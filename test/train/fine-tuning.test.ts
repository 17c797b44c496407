// Trains from existing weights: the fine-tuning learning rate by default, the same or a shorter context, the same bits from a
// run or from llm.c's file, and weights that cannot be fine-tuned. Names a run's model: a preset's name only if the sizes are the
// preset's. The configuration repeats the run, and resumes it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { createModel, Device, readRun, resolveWeights, type TrainOptions, train } from '../../src/index.ts';
import { modelName, presetConfig } from '../../src/model/config.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { workplace } from '../support/cli.ts';
import { llmcModelFile } from '../support/llmc-model.ts';
import { noticesOf, tinyRun, tinySizes } from '../support/tiny-run.ts';

const place = workplace();
const base: TrainOptions = { device: 'cpu', threads: 1, batch: 2, steps: 3, valEvery: 0, sampleEvery: 0 };
const sizes: TrainOptions = { ...tinySizes, context: 48, sequence: 32 };
const tune = (out: string, options: TrainOptions) =>
  noticesOf({ ...base, data: place.path('data'), out: place.path(out), ...options });
const losses = (out: string) => readRun(place.path(out)).series.train.map(([, loss]) => loss);
const configuration = (out: string) => readRun(place.path(out)).configuration;

beforeAll(async () => {
  place.data({ vocabulary: 100 });
  await tune('first', { ...sizes, learningRate: 1e-2 });
  // The same weights as llm.c would hold them.
  using device = Device.open({ kind: 'cpu', threads: 1 });
  const weights = await resolveWeights(place.path('first'));
  const model = createModel(device, weights.model, { B: 1, T: 16, purpose: 'inference' });
  weights.load(model);
  const file = llmcModelFile(weights.model, 'fp32', (name) => floats(model.masters.get(name)));
  writeFileSync(place.path('first.bin'), file);
});

it('takes the learning rate of a fine-tune, says so, and holds it', async () => {
  const notices = await tune('tuned', { model: place.path('first') });
  const { path } = resolveCheckpoint(place.path('first'));
  expect(notices).toEqual([`starting from ${path}, at the learning rate of a fine-tune, 0.00003; --lr sets another`]);
  expect(readRun(place.path('tuned')).series.lr).toEqual([0, 1, 2].map((step) => [step, 3e-5]));
  // A sequence is no longer than the model's context, also by default.
  expect(configuration('tuned')).toMatchObject({ sequence: 48, context: 48, learningRate: 3e-5, layers: 1 });
  expect(configuration('first')).toMatchObject({ learningRate: 1e-2 });
});

it('takes the learning rate that is given, and none of its own for a new model', async () => {
  const notices = await tune('faster', { model: place.path('first'), learningRate: 1e-3, sequence: 32 });
  expect(notices).toEqual([`starting from ${resolveCheckpoint(place.path('first')).path}`]);
  expect(configuration('faster').learningRate).toBe(1e-3);
  expect(await tune('new', sizes)).toEqual(['--seq 32 trains only the first positions of --context 48']);
  expect(configuration('new').learningRate).toBe(2e-3);
});

it("is the same to the last bit from llm.c's file", async () => {
  const options = { sequence: 32, learningRate: 1e-3 };
  await tune('from-run', { model: place.path('first'), ...options });
  const notices = await tune('from-file', { model: place.path('first.bin'), ...options });
  expect(notices).toEqual([`starting from ${place.path('first.bin')}`]);
  expect(losses('from-file')).toEqual(losses('from-run'));
  expect(losses('from-file')).not.toEqual(losses('new'));
});

it('shortens the context: shorter sequences lose nothing by it, and the run goes on without the weights', async () => {
  const model = place.path('first');
  await tune('long', { model, sequence: 16, steps: 4 });
  await tune('short', { model, context: 16, steps: 4, stopAfter: 2 });
  expect(configuration('short')).toMatchObject({ context: 16, sequence: 16 });
  await tune('short', { data: undefined, resume: true, steps: 4, stopAfter: 4 });
  expect(losses('short')).toEqual(losses('long'));
  expect(resolveCheckpoint(place.path('short')).manifest.model.context).toBe(16);
});

describe('refuses', () => {
  const refused = (options: TrainOptions) => expect(tune('refused', { model: place.path('first.bin'), ...options }));

  it('a longer context, longer sequences, another model', async () => {
    const longer = 'first.bin: a context can be shortened, not lengthened';
    await refused({ context: 64 }).rejects.toThrow(`--context 64 is over the 48 positions of ${place.path(longer)}`);
    await refused({ sequence: 49 }).rejects.toThrow("--seq 49 is over the model's context of 48 positions");
    await refused({ layers: 2 }).rejects.toThrow(/first\.bin was trained with --layers 1; leave out --layers/);
  });

  it('text of another vocabulary', async () => {
    const data = place.data({ vocabulary: 90, below: 90, name: 'other' });
    await refused({ data }).rejects.toThrow(
      /other has a vocabulary of 90 tokens .*, .*first\.bin one of 100; prepare the data/,
    );
  });
});

it('the longest sequence of a model is also that by default', () => {
  expect(completeOptions({ context: 256 }, 'cuda').sequence).toBe(256);
  expect(completeOptions({}, 'cuda').sequence).toBe(1024);
  expect(completeOptions({ model: 'runs/x' }, 'cuda', { ...presetConfig('d12')!, context: 512 }).sequence).toBe(512);
});

const options: TrainOptions = { ...tinyRun, data: place.path('data'), context: 64, sequence: 16, steps: 4 };

it('names a preset by its sizes, whatever was asked for, and keeps paths', () => {
  const [d6, d12] = [presetConfig('d6')!, presetConfig('d12')!];
  expect(modelName('d6', d6)).toBe('d6');
  expect(modelName('gpt2', d12)).toBe('gpt2');
  expect(modelName('d6', d12)).toBe('d12');
  expect(modelName('d6', { ...d6, layers: 7 })).toBe('custom');
  expect(modelName('d12', { ...d12, context: 64, vocabularySize: 257 })).toBe('d12');
  expect(modelName('custom', d12)).toBe('d12');
  expect(modelName('runs/d6', { ...d6, layers: 7 })).toBe('runs/d6');
});

it('says custom of a model of sizes; its config.json makes the same run, with or without its name', async () => {
  const [first, again, named] = ['sized', 'again', 'named'].map((name) => place.path(name)) as [string, string, string];
  await train({ ...options, out: first });
  const { configuration, series } = readRun(first);
  expect(configuration).toMatchObject({ model: 'custom', ...tinySizes, context: 64 });
  await train({ config: join(first, 'config.json'), out: again });
  expect(readRun(again)).toMatchObject({ configuration, series: { train: series.train } });
  await train({ ...options, model: 'custom', out: named });
  expect(readRun(named)).toMatchObject({ configuration, series: { train: series.train } });
});

it.each([undefined, 'd6', 'custom'])('resumes as it was started, with --model %s', async (model) => {
  const out = place.path(`resumed-${model}`);
  await train({ ...options, model, out, stopAfter: 2 });
  expect(await noticesOf({ ...options, model, out, resume: true })).toEqual([]);
  expect(readRun(out).configuration.model).toBe('custom');
  await expect(train({ ...options, model: 'd6', layers: 2, out, resume: true })).rejects.toThrow(
    /cannot resume .* with --(model d6|layers 2): it was trained with/,
  );
});

it('says that a longer schedule raises the rate of a finished run, and that a rate of 0 trains nothing', async () => {
  const [out, end] = [place.path('finished'), { schedule: 'constant', learningRate: 1e-4 }];
  const none = '--lr 0: no step changes the weights';
  expect(await noticesOf({ ...options, context: 16, out, learningRate: 0 })).toEqual([none]);
  expect(await noticesOf({ ...options, out, learningRate: 1e-3, overwrite: true })).not.toContain(none);
  expect(await noticesOf({ ...options, context: 16, out: place.path('still'), schedule: () => 0 })).toEqual([
    'the schedule gave a rate of 0 in every step: no step changed the weights',
  ]);
  const rise = 'the learning rate rises from 0.0001 to 0.000775 at step 4, as the schedule spans 8 steps';
  const notices = await noticesOf({ out, resume: true, steps: 8, stopAfter: 5 });
  expect(notices).toContain(`${rise}; to keep 0.0001, give --schedule constant --lr 0.0001`);
  const kept = await noticesOf({ out, resume: true, steps: 9, ...(end as TrainOptions) });
  expect(kept.join()).not.toContain('rises');
});
