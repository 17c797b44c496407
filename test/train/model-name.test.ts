// Names a run's model: a preset's name only if the sizes are the preset's. The configuration repeats the run, and resumes it.
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { readRun, type TrainOptions, train } from '../../src/index.ts';
import { modelName, presetConfig } from '../../src/model/config.ts';
import { workplace } from '../support/cli.ts';
import { noticesOf, tinyRun, tinySizes } from '../support/tiny-run.ts';

const place = workplace();
let options: TrainOptions;
const sizes = { ...tinySizes, context: 64 };
beforeAll(() => {
  options = { ...tinyRun, ...sizes, data: place.data({ vocabulary: 200 }), sequence: 16, steps: 4 };
});

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
  const [first, again, named] = ['first', 'again', 'named'].map((name) => place.path(name)) as [string, string, string];
  await train({ ...options, out: first });
  const { configuration, series } = readRun(first);
  expect(configuration).toMatchObject({ model: 'custom', ...sizes });
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
