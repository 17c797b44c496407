// --recipe: each value for d12 and the rules for other sizes, what overrides it, and what it rejects; and each part
// of its model alone, in a GPT-2 and taken out of a modern GPT.
import { Command } from 'commander';
import { describe, expect, it, vi } from 'vitest';
import { flagsOf, optionsFromFlags, tableOptions } from '../../src/commands/option-of-table.ts';
import { planRun } from '../../src/index.ts';
import { gpt2Architecture } from '../../src/model/architecture.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import { readValue } from '../../src/options/read-options.ts';
import { flagOf } from '../../src/options/row.ts';
import { resolveSources } from '../../src/options/sources.ts';
import { type OptionName, optionNames, optionRows, recordedNames, type TrainOptions } from '../../src/options/table.ts';
import { readRun } from '../../src/runs/reader.ts';
import { train } from '../../src/train/train.ts';
import { quiet, workplace } from '../support/cli.ts';

const place = workplace();
const recipe = 'modern';
const modern = (given: TrainOptions = {}) => resolveSources({ recipe, ...given }).options;
const originOf = (name: OptionName, given: TrainOptions = {}) =>
  resolveSources({ recipe, ...given }).recipe!.choices.find((choice) => choice.name === name)?.origin;

const parts = {
  ...{ norm: 'rmsnorm', positions: 'rotary', queryKeyNorm: 'rmsnorm', attentionScale: 0.12 },
  ...{ embeddingNorm: 'rmsnorm', activation: 'relu2', head: 'untied', softcap: 15, initialization: 'fan-in' },
} as const satisfies TrainOptions;

it('chooses the figures of its origin for d12', async () => {
  expect(modern()).toEqual({
    ...parts,
    ...{ model: 'd12', heads: 6, sequence: 1024, totalBatch: 524_288, steps: 3250 },
    ...{ schedule: 'trapezoid', decayFraction: 0.7, finalLearningRateFraction: 0, warmup: 0 },
    ...{ optimizer: 'muon', muonLearningRate: 0.025, muonMomentum: 0.95, newtonSchulz: 'cubic' },
    ...{ muonWeightDecay: 0.05, weightDecay: 0.001, gradientClip: 0 },
    ...{ learningRate: 0.015, embeddingLearningRate: 0.7, headLearningRate: 0.004 },
    ...{ beta1: 0.8, beta2: 0.95, eps: 1.90735e-16 },
  });
  for (const kind of ['cpu', 'cuda'] as const) expect(completeOptions(modern(), kind)).toMatchObject(modern());
});

it('windowed chooses the figures of its origin for d12, and as many value embeddings as fit', () => {
  const windowed = resolveSources({ recipe: 'windowed' }).options;
  expect(windowed).toEqual({
    ...{ ...parts, initialization: 'quarter-fan-in', skips: 'learned', valueEmbeddings: 3 },
    ...{ window: 1728, documentMask: true, windowSchedule: 'linear' },
    ...{ model: 'd12', heads: 6, context: 49_152, sequence: 49_152, totalBatch: 393_216, steps: 1770 },
    ...{ schedule: 'trapezoid', decayFraction: 0.4, finalLearningRateFraction: 0.1, warmup: 0 },
    ...{ optimizer: 'muon', muonLearningRate: 0.05, muonMomentum: 0.95, muonMomentumWarmup: 300 },
    ...{ newtonSchulz: 'quintic', muonWeightDecay: 0, weightDecay: 0, gradientClip: 0 },
    ...{ learningRate: 0.04, embeddingLearningRate: 0.6, headLearningRate: 0.008 },
    ...{ beta1: 0.8, beta2: 0.95, eps: 1e-10 },
  });
  for (const kind of ['cpu', 'cuda'] as const) expect(completeOptions(windowed, kind)).toMatchObject(windowed);
  const small = [1, 2, 5, 6].map((layers) => resolveSources({ recipe: 'windowed', layers, channels: 128 }).options);
  expect(small.map(({ valueEmbeddings }) => valueEmbeddings)).toEqual([undefined, 1, 2, 3]);
});

it.each(recordedNames.filter((name) => optionRows[name].type === 'switch'))(
  '%s has a flag that turns it off',
  (name) => {
    const read = (args: readonly string[]) => {
      const command = new Command();
      for (const option of tableOptions(name)) command.addOption(option);
      return optionsFromFlags([name], command.parse(args, { from: 'user' }).opts());
    };
    const off = read([flagOf(optionRows[name]).replace('--', '--no-')]);
    expect(off).toEqual({ [name]: false });
    expect(resolveSources({ recipe: 'windowed', ...off }).options).toMatchObject(off);
    // The runs of a sweep get options as flags.
    for (const options of [off, { [name]: true }]) expect(read(flagsOf(options))).toEqual(options);
    expect(read([])).toEqual({});
  },
);

it('follows its rules for another step and another model, and says which were not tested', async () => {
  const { learningRate, embeddingLearningRate, headLearningRate, muonLearningRate } = modern();
  const inRange: TrainOptions = { totalBatch: 131_072 };
  expect(modern(inRange)).toMatchObject({ learningRate, embeddingLearningRate, headLearningRate, muonLearningRate });
  expect(modern(inRange)).toMatchObject({ eps: 7.62939e-16, steps: 4 * 3250 });
  const small: TrainOptions = { totalBatch: 16_384 };
  expect(modern(small)).toMatchObject({
    ...{ learningRate: 0.0075, embeddingLearningRate: 0.35, headLearningRate: 0.002, muonLearningRate: 0.0125 },
    ...{ eps: 6.10352e-15, steps: 32 * 3250 },
  });
  expect(originOf('learningRate', small)).toMatch(/ x sqrt\(16384 \/ 65536 tokens a step\), untested$/);
  // Four times as many weights in each layer's matrices as d12 has, in half as many layers, and half the rates.
  const wide: TrainOptions = { channels: 3072, layers: 6 };
  expect(modern(wide)).toMatchObject({
    ...{ heads: 24, steps: 8 * 3250, muonLearningRate: 0.025 },
    ...{ learningRate: 0.0075, embeddingLearningRate: 0.35, headLearningRate: 0.002 },
  });
  expect(originOf('embeddingLearningRate', wide)).toMatch(/ x sqrt\(768 \/ 3072 channels\), untested$/);
  expect(originOf('steps', wide)).toMatch(/ x 8, the size of the layers' matrices over d12's, untested$/);
  for (const { name, origin } of resolveSources({ recipe }).recipe!.choices)
    expect(origin, name).not.toContain('untested');
});

it('divides channels into heads of 128, or else of 64', () => {
  expect([modern({ model: 'd24' }).heads, modern({ model: 'd48' }).heads]).toEqual([8, 25]);
  expect(originOf('heads', { model: 'd48' })).toBe('heads of 64: 1600 channels are no multiple of 128');
  expect(modern({ channels: 96, heads: 3 }).heads).toBe(3);
  expect(modern({ channels: 96 }).heads).toBeUndefined();
});

it('is overridden by any option, from flags, files and presets', () => {
  for (const [name, value] of Object.entries(modern()) as [OptionName, never][]) {
    const { type } = optionRows[name];
    const number = typeof type === 'object' && 'number' in type ? 0.5 : 2;
    const other = Array.isArray(type) ? type.find((each) => each !== value) : name === 'model' ? 'd24' : number;
    if (name === 'optimizer') continue;
    expect(modern({ [name]: other })[name], name).toBe(other);
    expect(originOf(name, { [name]: other }), name).toBeUndefined();
  }
  const config = place.file('some.json', JSON.stringify({ recipe, softcap: 30, steps: 7 }));
  expect(resolveSources({ config, softcap: 20 }).options).toMatchObject({ ...parts, softcap: 20, steps: 7 });
  // Each says how long a run is.
  const { options } = resolveSources({ config });
  expect(resolveSources({ config, tokens: 1e6 }).options).toEqual({ ...options, steps: undefined, tokens: 1e6 });
  const laptop = resolveSources({ preset: 'shakespeare-laptop', recipe }).options;
  expect(laptop).toMatchObject({ ...parts, channels: 128, heads: 4 });
});

it.each<[TrainOptions, string[]]>([
  [{ head: 'tied' }, ['headLearningRate']],
  [{ schedule: 'cosine' }, ['decayFraction', 'finalLearningRateFraction']],
  [{ schedule: 'constant' }, ['decayFraction', 'finalLearningRateFraction']],
  [{ optimizer: 'adamw', learningRate: 1e-3 }, ['muonLearningRate', 'muonMomentum', 'newtonSchulz', 'muonWeightDecay']],
  [{ tokens: 1e6 }, ['steps']],
])('with %j leaves out what would have no effect', (given, names) => {
  const all = Object.keys(modern()) as OptionName[];
  const left = all.filter((name) => !(name in modern(given)));
  expect(left.toSorted()).toEqual(names.toSorted());
  expect(completeOptions(modern(given), 'cpu')).toMatchObject(given);
});

it.each<[TrainOptions, RegExp]>([
  [{ optimizer: 'adamw' }, /^--recipe modern with --optimizer adamw needs --lr: .*; give one such as --lr 1e-3$/],
  [{ model: 'runs/x' }, /^--recipe is for new models, and --model runs\/x has weights .*; leave out --recipe/],
  [{ model: 'custom' }, /^--model custom needs --layers and --channels; give both$/],
  [{ steps: 5, tokens: 500 }, /^--steps 5 and --tokens 500 exclude each other: give one of them$/],
])('is rejected with %j', (given, message) => {
  expect(() => modern(given)).toThrow(message);
});

const small = {
  ...{ layers: 2, channels: 32, heads: 2, context: 16, sequence: 16, batch: 2, totalBatch: 64 },
  ...{ data: place.data({ vocabulary: 100 }), device: 'cpu', threads: 1, sampleEvery: 0, valEvery: 0 },
} as const satisfies TrainOptions;

it('an error says which value comes from the recipe', async () => {
  const { sequence: _, totalBatch: __, ...others } = small;
  await expect(planRun({ recipe, ...others })).rejects.toThrow(
    /^--seq 1024 is over .* 16 positions; .* \(from --recipe modern: --seq 1024\)$/,
  );
});

it('--dry-run prints every choice with its origin', async () => {
  const flags = Object.entries(small).flatMap(([name, value]) => [flagOf(optionRows[name as OptionName]), `${value}`]);
  const args = ['train', '--recipe', 'modern', '--dry-run', ...flags];
  const stdout = quiet(await place.here(args));
  const { choices, source } = resolveSources({ recipe, ...small }).recipe!;
  expect(stdout).toContain(`recipe modern; the origin is ${source}:\n`);
  expect(choices.length).toBe(optionNames.filter((name) => name in modern() && !(name in small)).length);
  for (const { name, value, origin } of choices) {
    const start = `${flagOf(optionRows[name])}=${value} `;
    const line = stdout.split('\n').find((each) => each.trimStart().startsWith(start));
    expect(line, name).toContain(origin);
  }
  const { stdout: json } = await place.here([...args, '--json']);
  expect(JSON.parse(json)).toMatchObject({ recipe: { name: recipe, choices } });
});

it('adds nothing to a run that is resumed, which has recorded its own options', async () => {
  const out = place.path('resumed');
  await train({ ...small, recipe, model: 'custom', head: 'tied', steps: 4, stopAfter: 2, out });
  const onNotice = vi.fn();
  expect((await train({ recipe, out, resume: true }, { onNotice })).steps).toBe(4);
  expect(onNotice.mock.calls).toEqual([[`${out} goes on with its own options: --recipe modern sets none of them`]]);
  expect(readRun(out).configuration).toMatchObject({ layers: 2, channels: 32, norm: 'rmsnorm', head: 'tied' });
});

describe('--tokens', () => {
  it.each(Object.entries({ 1000: 1000, '1k': 1000, '1.7B': 1.7e9, '0.5M': 500_000 }))('%s', (typed, tokens) => {
    expect(readValue(optionRows.tokens, typed)).toBe(tokens);
  });

  it('are as many steps as reach them', async () => {
    const out = place.path('tokens');
    expect((await train({ ...small, recipe, tokens: 130, out })).steps).toBe(3);
    expect(readRun(out).configuration).toMatchObject({ steps: 3 });
    expect(readRun(out).configuration).not.toHaveProperty('tokens');
  });
});

describe.each([
  ['a modern GPT', { recipe }, gpt2Architecture],
  ['a GPT-2', {}, parts],
] as const)('%s', async (model, base, others) => {
  const names = Object.keys(others) as (keyof typeof others)[];
  it.each(names)('trains with the other %s alone', async (name) => {
    // The factor is applied where queries are normalized or rotated.
    const needed = name === 'attentionScale' ? { queryKeyNorm: 'rmsnorm' as const } : {};
    const out = place.path(`${model}-${name}`);
    await train({ ...small, ...base, ...needed, [name]: others[name], steps: 2, out });
    const { configuration, series } = readRun(out);
    expect(configuration[name] ?? gpt2Architecture[name]).toBe(others[name]);
    expect(series.train.map(([, loss]) => Math.abs(loss - Math.log(128)) < 1)).toEqual([true, true]);
  });
});
