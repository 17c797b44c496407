// The references that come with the package: complete, found by a run's configuration, and what the recorded logs give.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { makeReferences } from '../../scripts/make-references.ts';
import { compareSeries, learningRateAt, type Reference, readReference, type Schedule } from '../../src/index.ts';
import { configurationDifferences, mismatches } from '../../src/options/configuration.ts';
import type { Configuration } from '../../src/options/table.ts';
import { matchingReference, referenceNames } from '../../src/report/compare/reference.ts';
import { d6, flat } from '../report/runs-to-draw.ts';
import { Workplace } from '../support/cli.ts';

const asConfigured = (of: Reference, changes: object = {}) =>
  ({ ...of.configuration, data: `somewhere/${of.configuration.data}`, ...changes }) as unknown as Configuration;

describe('the references', () => {
  it.each([
    ['llmc-d12-bf16-b4-t1024', 200, 11, 5.2951],
    ['llmc-d12-fineweb10b-8xh100', 1073, 80, 3.2722],
    ['llmc-d12-fp32-b4-t1024', 200, 11, 5.2911],
    ['llmc-d12-fp32-b4-t64', 40, 5, 7.0803],
    ['llmc-d6-fp32-b4-t64', 400, 9, 5.8942],
    ['pytorch-d6-fp32-b4-t64-moby-dick', 221, 9, 6.42121],
    ['pytorch-laptop-moby-dick-1200', 301, 4, 1.81847],
    ['pytorch-laptop-moby-dick-3000', 481, 7, 1.63738],
    ['pytorch-laptop-tinyshakespeare-1200', 301, 4, 1.89642],
    ['pytorch-laptop-tinyshakespeare-3000', 481, 7, 1.69053],
  ])('%s has %i training steps, %i validations, the last of %d', (name, steps, validations, last) => {
    const { series } = readReference(name);
    expect(series.train.length).toBe(steps);
    for (const of of [series.norm, series.lr])
      expect(of.map(([step]) => step)).toEqual(series.train.map(([step]) => step));
    expect(series.val.length).toBe(validations);
    expect(series.val.at(-1)![1]).toBe(last);
  });

  it.each(referenceNames())('%s: its configuration finds it, and gives its learning rate', (name) => {
    const reference = readReference(name);
    expect(matchingReference(asConfigured(reference))?.name).toBe(name);
    const schedule = reference.configuration as unknown as Schedule;
    const lr = reference.series.lr.map(([step]) => [step, learningRateAt(schedule, step)] as const);
    const compared = compareSeries({ train: [], val: [], norm: [], lr }, reference);
    expect(compared.series[3]).toMatchObject({ steps: lr.length, judged: lr.length, beyond: undefined });
  });

  it('fp32 holds bf16 to be outside, and the other way round', () => {
    const fp32 = readReference('llmc-d12-fp32-b4-t1024');
    const bf16 = readReference('llmc-d12-bf16-b4-t1024');
    expect(compareSeries(bf16.series, fp32).inside).toBe(false);
    expect(compareSeries(fp32.series, bf16).inside).toBe(true);
  });

  const logs = process.env.GPT2_REFERENCE_LOGS ?? fileURLToPath(new URL('../../../shared/reference', import.meta.url));
  it.skipIf(!existsSync(logs))(
    'have the series of the recorded logs, byte for byte (needs GPT2_REFERENCE_LOGS)',
    () => {
      const made = makeReferences(logs);
      expect([...made.keys()].sort()).toEqual(
        referenceNames().flatMap((name) => (name.startsWith('llmc') ? [`${name}.json`] : [])),
      );
      for (const [name, text] of made) {
        expect(readFileSync(new URL(`../../data/reference/${name}`, import.meta.url), 'utf8')).toBe(text);
      }
    },
  );

  it('a folder without the logs is refused by name', () => {
    expect(() => makeReferences('nowhere')).toThrow(
      /nowhere.llmc_tinyshakespeare_d12.*\.log does not exist: name the folder/,
    );
  });
});

describe('mismatches', () => {
  it('names every field that differs', () => {
    expect(mismatches(asConfigured(d6, { batch: 8, seed: 1 }), d6)).toEqual([
      { field: 'batch', run: 8, reference: 4 },
      { field: 'seed', run: 1, reference: 42 },
    ]);
    expect(matchingReference(asConfigured(d6, { batch: 8 }))).toBeUndefined();
  });

  it.each<[what: string, of: Reference, changes: object, fields: string[]]>([
    ['steps matter where the rate falls', d6, { steps: 7 }, ['steps']],
    ['steps do not matter where it is constant', flat, { steps: 7 }, []],
    ['nor by another schedule', flat, { steps: 7, schedule: 'linear' }, []],
    ['a constant rate has no end', flat, { schedule: 'constant', finalLearningRateFraction: 0.1 }, []],
    ['a rate that falls', flat, { finalLearningRateFraction: 0.1 }, ['finalLearningRateFraction']],
    ...[
      { valEvery: 7 },
      { valSteps: 7 },
      { valSteps: undefined, valTokens: 5120 },
      { optimizer: 'adamw', beta2: 0.95 },
    ].map((changes): [string, Reference, object, string[]] => ['does not matter', d6, changes, []]),
    // llm.c had the defaults of options that its curves lack.
    ...[{ optimizer: 'muon' }, { beta2: 0.99 }, { activation: 'relu2' }, { skipSpikes: 3 }, { vocabularySize: 65 }].map(
      (changes): [string, Reference, object, string[]] => ['unknown to llm.c', d6, changes, Object.keys(changes)],
    ),
    ['a model is known by its sizes', flat, { model: 'gpt2' }, []],
    ['whatever preset names it', d6, { model: 'd12' }, []],
    ['other sizes', d6, { channels: 768 }, ['channels']],
    ['weights to start from', d6, { model: 'runs/earlier' }, ['model']],
    ['a run over one batch', d6, { overfitBatch: true }, ['overfitBatch']],
  ])('%s: %s with %j', (_, of, changes, fields) => {
    expect(mismatches(asConfigured(of, changes), of).map(({ field }) => field)).toEqual(fields);
  });
});

it('takes a file, and refuses a limit it does not know in one line', () => {
  using place = new Workplace();
  const path = place.file('own.json', JSON.stringify({ ...d6, name: 'own' }));
  expect(readReference(path).name).toBe('own');
  const limits = [{ series: 'train', from: 0, to: 1, within: 1, avarage: true }];
  place.file('own.json', JSON.stringify({ ...d6, limits }));
  expect(() => readReference(path)).toThrow(/^[^\n]*own\.json is not a reference curve: [^\n]*avarage[^\n]*$/);
});

it('of two runs: one from before an option was added had its default, and constant rates are equal by any schedule', () => {
  const run = { schedule: 'constant', finalLearningRateFraction: 1, decayFraction: 0.2, beta2: 0.95, seed: 1 };
  const as = (configuration: object) => configuration as Configuration;
  const old = { schedule: 'cosine', finalLearningRateFraction: 1, seed: 2 };
  expect(configurationDifferences(as(run), as(old))).toEqual([{ field: 'seed', run: 1, reference: 2 }]);
  const longer = { ...run, steps: 20 };
  expect(configurationDifferences(as(longer), as({ ...run, steps: 10 }))).toEqual([
    { field: 'steps', run: 20, reference: 10 },
  ]);
  const falling = { ...old, seed: 1, finalLearningRateFraction: 0.1 };
  expect(configurationDifferences(as(run), as(falling)).map(({ field }) => field)).toEqual([
    'schedule',
    'finalLearningRateFraction',
  ]);
});
