// A shard that is written over while a run trains on it: the run ends rather than go on with other tokens, and goes on from
// its last checkpoint once the shard is what it was.
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { expect, it, onTestFinished } from 'vitest';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';

it('ends the run in one line; its last checkpoint goes on when the shard is restored', async () => {
  using place = new Workplace();
  const shard = `${place.data({ train: 9000, vocabulary: 100 })}/random_train.bin`;
  // More steps than anything here leaves time for.
  const options =
    '--data data --steps 1000000 --batch 1 --seq 32 --val-every 0 --sample-every 0 --save-every 20 --keep 2';
  const train = (out: string, ...more: string[]) => [
    'train',
    '--out',
    out,
    ...options.split(' '),
    ...tinyModel,
    ...more,
  ];
  const run = (args: string[]) => {
    const { stdout } = place.ok(args);
    return stdout;
  };

  const child = place.start(train('changed', '--json'));
  onTestFinished(() => void child.kill('SIGKILL'));
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const before = readFileSync(shard);
  const closed = once(child, 'close');
  for await (const line of createInterface(child.stdout)) {
    if (!line.includes('"event":"checkpoint"')) continue;
    const other = Buffer.from(before);
    other.fill(0, 1024);
    writeFileSync(shard, other);
    break;
  }
  child.stdout.resume();
  const [code] = await closed;
  // On a busy machine saves may have waited for each other, and said so.
  errors = errors.replaceAll(/^the save of step \d+ waited .*\n/gm, '');
  expect(errors).toMatch(/^data\/random_train\.bin changed while it was being read; restore it [^\n]*\n$/);
  expect(code).toBe(1);

  const { checkpoint, damaged } = newestValidCheckpoint(checkpointsFolder(place.path('changed')));
  expect(damaged).toEqual([]);
  const { step } = checkpoint!.manifest;
  expect(step).toBeGreaterThanOrEqual(20);

  const resume = ['train', '--out', 'changed', '--resume', '--stop-after', String(step + 30)];
  const refused = place.run(resume);
  expect(refused.stderr).toMatch(
    /^the data in data is not what .* was trained on: shard 0, random_train\.bin, had the sha256/,
  );
  expect(refused.code).toBe(1);

  writeFileSync(shard, before);
  expect(run(resume)).toContain(`from step ${step}`);
  run(train('straight', '--stop-after', String(step + 30)));
  expect(figuresOf(place.path('changed'))).toEqual(figuresOf(place.path('straight')));
});
