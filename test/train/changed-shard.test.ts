// Changes shards during a run: the same content is trained on; other content saves and ends the run, and the resumed run equals
// one that was not interrupted.
import { readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { type TrainOptions, train } from '../../src/index.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { noticesOf, tinyRun } from '../support/tiny-run.ts';

const place = workplace('each');
let data: string;
beforeEach(() => {
  data = place.data({ train: [700, 500], val: 500, vocabulary: 100 });
});
const given = (out: string): TrainOptions => ({
  ...{ ...tinyRun, order: 'llmc', totalBatch: 64, steps: 12, valEvery: 5, valSteps: 2, saveEvery: 0 },
  ...{ data, out: place.path(out) },
});
/** Trains, and does something with a shard when a step was done. */
const start = (out: string, step: number, shard: string, change: (path: string) => void) =>
  train(given(out), {
    onEvent: (event) => {
      if (event.event === 'train' && event.step === step) change(join(data, shard));
    },
  });

it.each(['random_train_000001.bin', 'random_val.bin'])('%s that is touched is trained on', async (shard) => {
  await train(given('straight'));
  await start('touched', 3, shard, (path) => {
    writeFileSync(path, readFileSync(path));
    utimesSync(path, 7, 7);
  });
  expect(figuresOf(place.path('touched'))).toEqual(figuresOf(place.path('straight')));
});

it.each([
  ['random_train_000001.bin', 7],
  ['random_val.bin', 5],
])('%s that is another ends the run, saved after the last step on what it was', async (shard, saved) => {
  await train(given('straight'));
  let before = Buffer.alloc(0);
  let path = '';
  const changed = start('changed', 3, shard, (changing) => {
    path = changing;
    before = readFileSync(path);
    const other = Buffer.from(before);
    for (let at = 1024; at < other.length; at += 2) other[at]! ^= 1;
    writeFileSync(path, other);
    utimesSync(path, 7, 7);
  });
  const why = `${shard} changed while it was being read; restore it .*; stopped after ${saved} of 12 steps and saved$`;
  await expect(changed).rejects.toThrow(new RegExp(why));
  const { checkpoint } = newestValidCheckpoint(checkpointsFolder(place.path('changed')));
  expect(checkpoint?.manifest.step).toBe(saved);
  if (shard.includes('train')) {
    await expect(train({ out: place.path('changed'), resume: true })).rejects.toThrow(
      /^the data in .* is not what .* was trained on: shard 0, random_train_000001\.bin, had the sha256/,
    );
  }
  writeFileSync(path, before);
  await train({ out: place.path('changed'), resume: true });
  expect(figuresOf(place.path('changed'))).toEqual(figuresOf(place.path('straight')));
});

it("other data takes the place of the run's, with a notice; shards of other names are named", async () => {
  await train({ ...given('run'), stopAfter: 2 });
  const other = place.data({ train: 900, val: 500, vocabulary: 100, name: 'other' });
  const notices = await noticesOf({ out: place.path('run'), resume: true, data: other, stopAfter: 3 });
  expect(notices.join()).toMatch(/--data .*other in place of the run's .*data/);
  place.data({ train: 901, val: 500, vocabulary: 100, name: 'other' });
  await expect(train({ out: place.path('run'), resume: true })).rejects.toThrow(
    /shard 0 was random_train\.bin of 900 tokens, now it is random_train\.bin of 901 tokens/,
  );
});
