// Presets: what they hold, what overrides them, and the commands and calls that take them.
import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { train } from '../../src/index.ts';
import { presetConfig } from '../../src/model/config.ts';
import {
  completeOptions,
  defaultWarmup,
  freezeOptions,
  modelOf,
  unlikeDefaults,
} from '../../src/options/complete-options.ts';
import { commandOf, configurationOf, mismatches } from '../../src/options/configuration.ts';
import { type PresetName, readPreset, runPresetNames } from '../../src/options/presets.ts';
import { readOptionsFile, readValue } from '../../src/options/read-options.ts';
import { resolveSources } from '../../src/options/sources.ts';
import { type Configuration, type OptionName, optionRows, type TrainOptions } from '../../src/options/table.ts';
import { readReference, referenceNames } from '../../src/report/compare/reference.ts';
import { quiet, workplace } from '../support/cli.ts';

const place = workplace();
const laptop = 'shakespeare-laptop';

describe.each(runPresetNames)('%s', (name) => {
  const { options } = readPreset(name);

  it('has values that its options accept, alone and together', () => {
    for (const [option, value] of Object.entries(options)) {
      expect(readValue(optionRows[option as OptionName], value)).toBe(value);
    }
    for (const kind of ['cpu', 'cuda'] as const) expect(completeOptions(options, kind)).toMatchObject(options);
  });

  it('is printed as a file that --config takes', async () => {
    const { stdout } = await place.okHere(['presets', name]);
    place.file(`${name}.json`, stdout);
    expect(readOptionsFile(place.path(`${name}.json`))).toEqual(options);
  });
});

/** The configuration of a run with these options; weights have the sizes of d12. */
function configured(options: TrainOptions, kind: 'cpu' | 'cuda'): Configuration {
  const complete = completeOptions(options, kind);
  const d12 = { ...presetConfig('d12')!, context: 1024, vocabularySize: 50257 };
  const weights = complete.model.includes('/') ? d12 : undefined;
  const frozen = freezeOptions({ ...complete, batch: Number(complete.batch) });
  const { steps = 1000 } = complete;
  const warmup = defaultWarmup(steps, weights !== undefined);
  return configurationOf({ warmup, ...frozen }, modelOf(frozen, weights), steps);
}

it.each([
  ...runPresetNames.map((name) => ({ preset: name })),
  {},
  { recipe: 'modern' as const, steps: 10 },
  { recipe: 'windowed' as const, steps: 10 },
  { model: 'd12', layers: 3, context: 64, keep: 2 },
  { schedule: 'linear' as const, ranks: 2, batch: 8 },
  { finalLearningRateFraction: 0.5, kernels: ['a', 'b'] },
])('the configuration of %j follows from its options without defaults, on a CPU and on a GPU', (asked) => {
  for (const from of ['cpu', 'cuda'] as const) {
    const configuration = configured(resolveSources(asked).options, from);
    for (const kind of ['cpu', 'cuda'] as const) {
      expect(configured(unlikeDefaults(configuration), kind)).toEqual(configuration);
    }
  }
});

it('the command of a configuration quotes its values, repeats flags, and leaves out defaults', () => {
  const options = { ...{ model: 'd6', data: "data/it's", kernels: ['a', 'b'] }, overfitBatch: true, sequence: 64 };
  for (const dtype of ['fp32', 'bf16'] as const) {
    expect(commandOf(configured({ ...options, dtype }, 'cpu'))).toBe(
      `npx gpt2 train --steps 1000 --model d6 --data 'data/it'\\''s' --overfit-batch --seq 64 --dtype ${dtype} --kernel a --kernel b`,
    );
  }
});

const against = (options: TrainOptions, curve: string) => {
  const reference = readReference(curve);
  // The vocabulary of a custom model comes from the data.
  const sizes = presetConfig(options.model!) ?? { vocabularySize: reference.configuration.vocabularySize };
  return mismatches({ ...completeOptions(options, 'cuda'), ...sizes } as Configuration, reference);
};

it("gpt2-124m-fineweb is configured as llm.c's curve once the data tells the steps", () => {
  const options = { ...readPreset('gpt2-124m-fineweb').options, steps: 19_560 };
  expect(against(options, 'llmc-d12-fineweb10b-8xh100')).toEqual([]);
});

it.each(referenceNames())('%s is the preset of a run that is configured as the curve', (name) => {
  const { options } = readPreset(name as PresetName);
  expect(against(options, name)).toEqual([]);
  // Whatever the defaults become.
  const isOfLlmc = name.startsWith('llmc-');
  const ofSteps = 'data order seed batch sequence totalBatch steps weightDecay gradientClip dtype valEvery';
  const ofRate = 'learningRate warmup schedule finalLearningRateFraction';
  const recorded = [...`${ofSteps} ${ofRate}`.split(' '), isOfLlmc ? 'valSteps' : 'valTokens'];
  expect(Object.keys(options)).toEqual(expect.arrayContaining(recorded));
  expect([options.order, completeOptions({}, 'cuda').order]).toEqual([isOfLlmc ? 'llmc' : 'sequence', 'sequence']);
});

it('a flag overrides --config, which overrides --preset', () => {
  const config = place.file('some.json', JSON.stringify({ lr: 0.5, batch: 7 }));
  const read = resolveSources({ preset: laptop, config, batch: 9 }).options;
  expect(read).toEqual({ ...readPreset(laptop).options, learningRate: 0.5, batch: 9 });
  place.file('some.json', JSON.stringify({ preset: 'finetune', steps: 7 }));
  expect(resolveSources({ config }).options).toEqual({ ...readPreset('finetune').options, steps: 7 });
  expect(resolveSources({ config, preset: laptop }).options).toEqual({ ...readPreset(laptop).options, steps: 7 });
});

it('an option that is given as undefined is not given', () => {
  expect(resolveSources({ preset: laptop, steps: undefined }).options.steps).toBe(readPreset(laptop).options.steps);
});

it('`presets` lists each with the commands that prepare its data and train it', async () => {
  const { stdout } = await place.okHere(['presets']);
  expect(stdout).toContain("pytorch-laptop-moby-dick-1200: PyTorch's curve: l4-c128-h4, moby-dick-char, 1200 steps");
  for (const name of runPresetNames) {
    expect(stdout).toMatch(
      new RegExp(`^${name}: .{20,120}\\n(  (npm run|npx gpt2) prepro .*\\n)+  .* train .*--preset ${name}$`, 'm'),
    );
  }
  expect(Object.keys(JSON.parse((await place.here(['presets', '--json'])).stdout))).toEqual(runPresetNames);
});

describe('in a run', () => {
  const data = place.data({ train: 20_000, vocabulary: 100 });
  const small = { data, layers: 1, channels: 16, heads: 1, device: 'cpu' } as const;

  it('train() takes a preset, and records its options', async () => {
    const out = place.path('run');
    await train({ preset: laptop, ...small, steps: 1, warmup: 0, valEvery: 0, sampleEvery: 0, out });
    const recorded = JSON.parse(readFileSync(place.path('run', 'config.json'), 'utf8')) as object;
    const { batch, sequence, order, learningRate, beta2 } = readPreset(laptop).options;
    expect(recorded).toMatchObject({ batch, sequence, order, learningRate, beta2, steps: 1, channels: 16 });
    expect(recorded).not.toHaveProperty('preset');
  });

  it('the same command with resume continues the run, with nothing in place of its options', async () => {
    const options = { preset: laptop, ...small, steps: 2, warmup: 0, valEvery: 0, sampleEvery: 0 } as const;
    const out = place.path('resumed');
    const onNotice = vi.fn();
    await train({ ...options, stopAfter: 1, out });
    const { steps } = await train({ ...options, resume: 'auto', out }, { onNotice });
    expect([steps, onNotice.mock.calls]).toEqual([2, []]);
  });

  it('--dry-run prints what comes from the preset', async () => {
    const args = `train --preset ${laptop} --dry-run --data ${data} --batch 3 --device cpu`;
    const [line] = quiet(await place.here(args)).split('\n');
    expect(line).toMatch(`preset ${laptop}: --model=custom --layers=4 --channels=128`);
    expect(line).toContain(' --lr=0.003 ');
    expect(line).not.toMatch(/--(batch|data)=/);
    const { preset } = JSON.parse((await place.here(`${args} --json`)).stdout) as { preset: { name: string } };
    expect(preset).toMatchObject({ name: laptop, options: { learningRate: 0.003 } });
  });
});
