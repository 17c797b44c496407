// Options by name, as files and flags have them; options that several sources give, and parts that weights give: which value counts.
// --resume against the column of the options table: refused, used with a notice, or used with --order sequence only.
import { describe, expect, it } from 'vitest';
import { secondsOf } from '../../src/base/checks/given.ts';
import { gpt2Architecture } from '../../src/model/architecture.ts';
import { checkConfig, type ModelConfig } from '../../src/model/config.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import { readOptionsFile, readValue } from '../../src/options/read-options.ts';
import { resumedOptions, runToResume } from '../../src/options/resumed-options.ts';
import { flagOf } from '../../src/options/row.ts';
import { resolveSources } from '../../src/options/sources.ts';
import { type OptionName, optionNamed, optionNames, optionRows, type TrainOptions } from '../../src/options/table.ts';
import { wantedRanks } from '../../src/train/plan/resolve-options.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();

it('every option is named by its field, its flag, and either in snake case', () => {
  const snake = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  const named = (as: (name: OptionName) => string) => optionNames.map((name) => optionNamed(as(name)));
  expect(named((name) => name)).toEqual(optionNames);
  expect(named(snake)).toEqual(optionNames);
  expect(named((name) => flagOf(optionRows[name]))).toEqual(optionNames);
  expect(named((name) => flagOf(optionRows[name]).replace('--', '').replaceAll('-', '_'))).toEqual(optionNames);
  expect(optionNamed('max-steps')).toBeUndefined();
});

it('reads them from a file, and from the config.json of a folder', () => {
  place.file('config.json', JSON.stringify({ lr: 1e-3, 'total-batch': 512, valEvery: 5, seq: 64 }));
  const read = { learningRate: 1e-3, totalBatch: 512, valEvery: 5, sequence: 64 };
  expect(readOptionsFile(place.path('config.json'))).toEqual(read);
  expect(readOptionsFile(place.folder)).toEqual(read);
});

it('a time has a unit and is over 0', () => {
  expect(['90s', '10m', '1.5h'].map(secondsOf)).toEqual([90, 600, 5400]);
  expect(['0s', '-1m', 'm', '10', '10d', ' 1m', '1e999s', 10, true].map(secondsOf)).toEqual(Array(9).fill(undefined));
});

it('--save-every takes steps or a time', () => {
  expect([500, '500', '0', '10m'].map((value) => readValue(optionRows.saveEvery, value))).toEqual([500, 500, 0, '10m']);
  const wrong = '--save-every takes a whole number of at least 0 or a time such as 90s, 10m or 1.5h, not "10 minutes"';
  expect(() => readValue(optionRows.saveEvery, '10 minutes')).toThrow(wrong);
});

it('--resume takes auto', () => {
  expect([true, false, 'auto'].map((value) => readValue(optionRows.resume, value))).toEqual([true, false, 'auto']);
});

const fileOf = (options: object) => place.file('options.json', JSON.stringify(options));

/** Another schedule has an end of its own. */
const falls: TrainOptions = { schedule: 'cosine', finalLearningRateFraction: 0.1, steps: 5 };
it.each<[TrainOptions, TrainOptions, TrainOptions]>([
  [{ model: 'custom', layers: 2, channels: 64, heads: 2 }, { model: 'd6' }, { model: 'd6' }],
  [
    { model: 'd6', layers: 6, channels: 384, heads: 6 },
    { model: 'd12', layers: 3 },
    { model: 'd12', layers: 3 },
  ],
  [
    { model: 'd6', layers: 6 },
    { model: 'custom', heads: 3 },
    { model: 'custom', layers: 6, heads: 3 },
  ],
  [{ layers: 2 }, { model: 'd6' }, { model: 'd6', layers: 2 }],
  [falls, { steps: undefined }, falls],
  [falls, { schedule: 'linear', steps: 9 }, { schedule: 'linear', steps: 9 }],
  [{ steps: 2000, warmup: 500 }, { tokens: 1e6 }, { tokens: 1e6 }],
  [{ steps: 2000, warmup: 100 }, { tokens: 1e6 }, { tokens: 1e6, warmup: 100 }],
])('of %j in a file and %j, %j counts', (inFile, asked, wanted) => {
  const resolved = resolveSources({ ...asked, config: fileOf(inFile) });
  expect(JSON.parse(JSON.stringify(resolved.options))).toEqual(wanted);
});

it('a model in place of that of a preset brings its sizes', () => {
  const { model, layers, channels, heads } = resolveSources({ model: 'd6', preset: 'shakespeare-laptop' }).options;
  expect([model, layers, channels, heads]).toEqual(['d6', ...Array(3)]);
});

describe('--steps and --tokens replace each other', () => {
  it('in a file and in a preset', () => {
    for (const given of [{ config: fileOf({ steps: 7 }) }, { preset: 'shakespeare-laptop' } as const]) {
      const options = resolveSources({ ...given, tokens: 1e6 }).options;
      expect([options.steps, options.tokens]).toEqual([undefined, 1e6]);
      // The options of a run are read again where they are used.
      expect(resolveSources(options).options).toEqual(options);
    }
    const options = resolveSources({ config: fileOf({ tokens: 1e6 }), steps: 7 }).options;
    expect([options.steps, options.tokens]).toEqual([7, undefined]);
  });

  it('in a run that is resumed', () => {
    const run = { steps: 7, totalBatch: 100 };
    const eight = "--steps 8 in place of the run's 7";
    const notices = ["--steps 15 in place of the run's 7", "--total-batch 50 in place of the run's 100"];
    expect(resume({ tokens: 650 }, run)).toEqual({ options: { ...run, out }, notices: [] });
    expect(resume({ tokens: 750 }, run)).toEqual({ options: { ...run, out, steps: 8 }, notices: [eight] });
    const options = { steps: 15, totalBatch: 50, out };
    expect(resume({ tokens: 750, totalBatch: 50 }, run)).toEqual({ options, notices });
  });

  it('but one source gives one of them', () => {
    const config = fileOf({ steps: 7, tokens: 1e6 });
    for (const two of [{ config }, { steps: 7, tokens: 1e6 }]) {
      expect(() => resolveSources(two)).toThrow('--steps 7 and --tokens 1000000 exclude each other: give one of them');
    }
  });
});

it('weights have parts of their own, which options need not repeat', () => {
  const sizes = { layers: 1, channels: 32, heads: 2, context: 16, vocabularySize: 100 };
  const weights: ModelConfig = { ...sizes, head: 'untied', softcap: 15 };
  const options = completeOptions({ model: 'some/weights', headLearningRate: 1e-3, sequence: 16 }, 'cpu', weights);
  expect(options).toMatchObject({ ...JSON.parse(JSON.stringify(gpt2Architecture)), head: 'untied', softcap: 15 });
});

it('the parts of weights that are not open yet are unknown, unless they are given', () => {
  const given = { model: 'some/weights', headLearningRate: 1e-3, ranks: 2, device: 'cpu' } as const;
  expect(wantedRanks(given)).toBe(2);
  for (const refused of [{ ...given, head: 'tied' } as const, { ...given, model: 'd6' }]) {
    expect(() => wantedRanks(refused)).toThrow('--head-lr 0.001 has no effect with --head tied');
  }
});

it.each(['embeddingLearningRate', 'headLearningRate', 'muonLearningRate'] as const)('%s follows --lr', (name) => {
  const given = { learningRate: 0, [name]: 0.5, head: 'untied', optimizer: 'muon' } as const;
  expect(() => completeOptions(given, 'cpu')).toThrow('has no effect with --lr 0, whose schedule it follows');
});

it('an odd head size cannot be normalized in pairs', () => {
  const sizes = { layers: 1, channels: 21, heads: 3, context: 16, vocabularySize: 100 };
  expect(() => checkConfig({ ...sizes, queryKeyNorm: 'rmsnorm' })).toThrow('rmsnorm needs an even head size, not 7');
});

const before: TrainOptions = {
  ...{ model: 'd6', layers: 6, channels: 384, heads: 6, context: 1024, seed: 42, order: 'llmc', overfitBatch: false },
  ...{ batch: 4, sequence: 64, totalBatch: 256, learningRate: 3e-4 },
};
const out = 'runs/d6';

function resume(given: TrainOptions, run: TrainOptions = before) {
  const notices: string[] = [];
  const options = resumedOptions(run, { out, ...given }, (text) => notices.push(text));
  return { options, notices };
}

it.each<[TrainOptions, string]>([
  [{ layers: 7 }, 'with --layers 7: it was trained with 6'],
  [{ context: 512 }, 'with --context 512: it was trained with 1024'],
  [{ seed: 1 }, 'with --seed 1: it was trained with 42'],
  [{ order: 'file' }, 'with --order file: it was trained with llmc'],
  [{ overfitBatch: true }, 'with --overfit-batch true: it was trained with false'],
  [{ window: 8 }, 'with --window 8: it was trained with none'],
  [{ documentMask: true }, 'with --document-mask true: it was trained with false'],
  [{ model: 'd12' }, 'with --model d12: it was trained with d6'],
  [{ model: 'runs/other' }, 'with --model runs/other: it was trained with d6'],
  [{ batch: 8 }, 'with --batch 8: it was trained with 4; only --order sequence can continue with another split'],
  [{ ranks: 2 }, 'with --gpus 2: it was trained with 1; only --order sequence can continue with another split'],
])('refuses %j', (given, reason) => {
  expect(() => resume(given)).toThrow(`cannot resume ${out} ${reason}`);
});

it('takes others with a notice, and what stays the same without one', () => {
  const same: TrainOptions = { model: 'custom', layers: 6, channels: 384, heads: 6, batch: 4, ranks: 1 };
  const given: TrainOptions = { ...same, learningRate: 1e-3, keep: 2, stopAfter: 5 };
  expect(resume(given)).toEqual({
    options: { ...before, out, ...given },
    notices: ["--lr 0.001 in place of the run's 0.0003", "--keep 2 in place of the run's default"],
  });
  const sequences: TrainOptions = { ...before, order: 'sequence' };
  expect(resume({ batch: 8 }, sequences).notices).toEqual(["--batch 8 in place of the run's 4"]);
  const validated: TrainOptions = { ...before, valSteps: 20 };
  expect(resume({}, validated).options).toEqual({ ...validated, out });
  expect(resume({ valTokens: 'all' }, validated)).toEqual({
    options: { ...before, out, valTokens: 'all' },
    notices: ["--val-tokens all in place of the run's --val-steps 20"],
  });
});

it('is of the run in --out', () => {
  expect(runToResume({ out })).toBeUndefined();
  expect(runToResume({ out, resume: true })).toBe(out);
});

it.each<[TrainOptions, TrainOptions, TrainOptions]>([
  [{}, {}, { schedule: 'cosine', finalLearningRateFraction: 0.1 }],
  [{ steps: 2000, warmup: 500 }, {}, { warmup: 500 }],
  [{ steps: 2000, warmup: 500 }, { steps: 400 }, { warmup: undefined }],
  [{ steps: 2000, warmup: 100 }, { steps: 400 }, { warmup: 100 }],
  [{ steps: 3, warmup: 0 }, { steps: 400 }, { warmup: 0 }],
  [{}, { finalLearningRateFraction: 0.2 }, { schedule: 'cosine', finalLearningRateFraction: 0.2 }],
  [{}, { schedule: 'cosine' }, { finalLearningRateFraction: 0.1 }],
  [{}, { schedule: 'linear' }, { finalLearningRateFraction: 0 }],
  [{}, { schedule: 'wsd' }, { finalLearningRateFraction: 0, decayFraction: 0.2 }],
  // As runs of before recorded a constant rate.
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, {}, { schedule: 'cosine', finalLearningRateFraction: 1 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, { schedule: 'linear' }, { finalLearningRateFraction: 0 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, { schedule: 'cosine' }, { finalLearningRateFraction: 1 }],
  [{ schedule: 'linear', finalLearningRateFraction: 1 }, { finalLearningRateFraction: 0 }, { schedule: 'linear' }],
  [{ schedule: 'constant', finalLearningRateFraction: 1 }, { finalLearningRateFraction: 0.1 }, { schedule: 'cosine' }],
  [{ schedule: 'linear', finalLearningRateFraction: 0.3 }, { schedule: 'wsd' }, { finalLearningRateFraction: 0 }],
  [{ schedule: 'linear', finalLearningRateFraction: 0.3 }, { schedule: 'linear' }, { finalLearningRateFraction: 0.3 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 0.1 }, { schedule: 'constant' }, { finalLearningRateFraction: 1 }],
  [{ schedule: 'wsd', decayFraction: 0.5 }, { schedule: 'linear' }, { decayFraction: 0.2 }],
  // As runs of before recorded their default.
  [{ order: 'llmc' }, {}, { order: 'llmc' }],
])('of a run with %j, %j gives %j', (earlier, given, wanted) => {
  const resumed = resumedOptions(earlier, given, () => {});
  expect({ warmup: undefined, ...completeOptions(resumed, 'cpu') }).toMatchObject(wanted);
});
