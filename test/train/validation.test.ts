// Wraps validation around a set of fewer batches than --val-steps: each batch runs once and is weighted in the mean.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openLoader } from '../../src/batches/loader.ts';
import { meanLoss } from '../../src/evaluate/mean-loss.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel } from '../../src/model/model.ts';
import { Device } from '../../src/native/device.ts';
import { readRun } from '../../src/runs/reader.ts';
import { findShards } from '../../src/shards/find.ts';
import { train } from '../../src/train/train.ts';
import { Workplace } from '../support/cli.ts';

const sizes = { layers: 1, channels: 32, heads: 2, context: 16 };
const [batch, sequence, vocabularySize, seed] = [2, 16, 100, 7];

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
  // Five batches, and some tokens over.
  place.data({ val: 5 * batch * sequence + 9, vocabulary: vocabularySize });
});
afterAll(() => place[Symbol.dispose]());

it.each([1, 3, 5, 7, 10, 13])('%i batches', async (valSteps) => {
  const data = place.path('data');
  const out = place.path(`run-${valSteps}`);
  const options = { device: 'cpu', data, out, batch, sequence, seed, ...sizes };
  await train({ ...options, steps: 2, stopAfter: 1, valEvery: 1, valSteps, learningRate: 0, sampleEvery: 0 });

  using device = Device.open({ kind: 'cpu' });
  const model = createModel(device, { ...sizes, vocabularySize }, { B: batch, T: sequence, purpose: 'inference' });
  initializeWeights(model, seed);
  const shards = findShards(data, 'val');
  using loader = openLoader({ shards, batch, sequence, order: 'file', seed, vocabularySize });
  const wanted = await meanLoss(model, { batch, sequence, batches: valSteps }, () => loader.next());
  for (const [, loss] of readRun(out).series.val) expect(Math.abs(loss - wanted)).toBeLessThan(1e-12);
  expect(readRun(out).series.val.length).toBe(2);
});
