// Validation: whole sequences, whose figures depend on neither batch nor recompute, and llm.c's batches. Those wrap around a set of
// fewer batches than --val-steps: each batch runs once and is weighted in the mean.
import { beforeAll, describe, expect, it } from 'vitest';
import { Device, findShards, meanLoss, openLoader, readRun, type TrainOptions } from '../../src/index.ts';
import { workplace } from '../support/cli.ts';
import { drawnModel } from '../support/tiny-model.ts';
import { noticesOf, tinyRun, tinySizes } from '../support/tiny-run.ts';

const sizes = { ...tinySizes, context: 16 };
const [batch, sequence, vocabularySize, seed] = [2, 16, 100, 7];

const place = workplace();
beforeAll(() => {
  // Five batches, and some tokens over.
  place.data({ val: 5 * batch * sequence + 9, vocabulary: vocabularySize });
});

it.each([1, 3, 5, 7, 10, 13])('%i batches', async (valSteps) => {
  const data = place.path('data');
  const out = place.path(`run-${valSteps}`);
  const options = { ...tinyRun, dtype: 'fp32' as const, data, out, batch, sequence, seed, ...sizes };
  const notices = await noticesOf({ ...options, steps: 2, stopAfter: 1, valEvery: 1, valSteps, learningRate: 0 });
  expect(notices.includes(`--val-steps ${valSteps} reads the set again after its 5 batches`)).toBe(valSteps > 5);

  using device = Device.open({ kind: 'cpu' });
  const model = drawnModel(device, { ...sizes, vocabularySize }, { B: batch, T: sequence, purpose: 'inference' }, seed);
  using loader = openLoader({ shards: findShards(data, 'val'), batch, sequence, order: 'file', seed, vocabularySize });
  const wanted = await meanLoss(model, { batch, sequence, batches: valSteps }, () => loader.next());
  for (const [, loss] of readRun(out).series.val) expect(Math.abs(loss - wanted)).toBeLessThan(1e-12);
  expect(readRun(out).series.val.length).toBe(2);
});

describe('whole sequences', () => {
  const run = async (given: TrainOptions, out = `run-${JSON.stringify(given).replaceAll(/\W/g, '')}`) => {
    const common = { ...tinyRun, data: place.path('data'), out: place.path(out), ...sizes, sequence, seed };
    const notices = await noticesOf({ ...common, totalBatch: 16 * sequence, steps: 1, valEvery: 1, ...given });
    const { events, configuration } = readRun(place.path(out));
    return { notices, configuration, val: events.filter((event) => event.event === 'val') };
  };

  it('are the same at any batch, with recomputation, and of the set alone', async () => {
    const { notices, configuration, val } = await run({ batch: 4, context: 64 });
    expect(notices).toEqual([
      '--seq 16 trains only the first positions of --context 64',
      'validation: all 10 sequences of 16 are read: the set does not hold 1280 tokens',
      'validation: 8 tokens at the end of shards fill no sequence of 16: left out',
    ]);
    expect(configuration).toMatchObject({ valTokens: 80 * sequence });
    expect(configuration.valSteps).toBeUndefined();
    expect(val.map(({ tokens }) => tokens)).toEqual([160, 160]);
    for (const given of [{ batch: 1 }, { batch: 16 }, { batch: 4, recompute: 'block' }] as const) {
      const [first] = (await run({ ...given, context: 64 })).val;
      expect(Math.abs(first!.loss - val[0]!.loss)).toBeLessThan(2e-6);
      expect(first!.standardError).toBeCloseTo(val[0]!.standardError!, 6);
    }
  });

  it('of a set that holds none are missed with the advice, and training goes on', async () => {
    const data = place.data({ name: 'tiny', val: 9, vocabulary: vocabularySize });
    const { notices, val } = await run({ data, batch: 4 });
    expect(notices).toEqual(['validation: nothing is read: the set holds no sequence of 16; take a shorter --seq']);
    expect(val).toEqual([]);
  });

  it('are listed in the last line only, at most 1,000 of them', async () => {
    const data = place.data({ name: 'long', val: 1100 * 2 + 1, vocabulary: vocabularySize });
    const [first, last] = (await run({ data, batch: 8, sequence: 2, totalBatch: 32, valTokens: 'all' })).val;
    expect(first).toMatchObject({ tokens: 2200 });
    expect(first!.sequenceLosses).toBeUndefined();
    expect(last!.sequenceLosses).toHaveLength(1000);
    const few = (await run({ batch: 4, valTokens: 40 })).val[1]!;
    expect(few.sequenceLosses).toHaveLength(2);
    expect(few.loss).toBe((few.sequenceLosses![0]! + few.sequenceLosses![1]!) / 2);
  });

  it('replace the batches of a resumed run only if asked for, and the other way round', async () => {
    const options = { batch: 2, steps: 3, valSteps: 3 };
    expect((await run({ ...options, stopAfter: 1 }, 'moved')).configuration).toMatchObject({ valSteps: 3 });
    const resumed = await run({ batch: 2, steps: 3, resume: true, stopAfter: 2 }, 'moved');
    expect(resumed.configuration.valTokens).toBeUndefined();
    expect(resumed.val.map(({ tokens }) => tokens)).toEqual([96, 96, 96]);
    const other = await run({ batch: 2, steps: 3, resume: true, valTokens: 48 }, 'moved');
    expect(other.notices[0]).toBe("--val-tokens 48 in place of the run's --val-steps 3");
    expect(other.configuration.valSteps).toBeUndefined();
    expect(other.val.map(({ tokens }) => tokens)).toEqual([96, 96, 96, 48]);
  });
});
