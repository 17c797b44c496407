// Kills a run again and again with SIGKILL, at random moments of training, saving, pruning and logging, and resumes it: it
// loses, repeats and changes nothing of what the same run does when it is left alone.
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { checkpointsFolder, logPath } from '../../src/runs/paths.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { rounds, seed } from '../support/rounds.ts';

it('a run that is killed again and again loses, repeats and changes nothing', async () => {
  const kills = 10 * rounds;
  using place = new Workplace();
  const random = new Random(seed);
  // A small vocabulary makes small checkpoints: the disk is not what is tested.
  const data = place.data({ train: 9000, vocabulary: 100 });
  // More steps than the kills leave time for; the last start does what is left.
  const steps = 300 + 70 * kills;
  const args = (out: string) => [
    ...['train', '--data', data, '--out', out, ...tinyModel, '--batch', '1', '--seq', '32'],
    ...['--steps', String(steps), '--lr', '1e-3', '--val-every', '7', '--val-steps', '2', '--sample-every', '0'],
    ...['--save-every', '2', '--keep', '3', '--keep-every', '50'],
  ];
  place.ok(args('straight'));

  const out = place.path('killed');
  let [done, beforeFirstStep, damaged] = [0, 0, 0];
  while (done < kills) {
    const before = existsSync(logPath(out)) ? readFileSync(logPath(out)).length : 0;
    const { child, said, ended } = place.begin([...args(out), ...(existsSync(logPath(out)) ? ['--resume'] : [])]);
    // About 0.4 s go by before the first step.
    await setTimeout(350 + random.uniform() * 450);
    child.kill('SIGKILL');
    const { code } = await ended;
    expect(code, code === 0 ? `it was done after ${done} kills: ${steps} steps are too few` : said.stderr).toBeNull();
    done++;
    if (existsSync(logPath(out)) && readFileSync(logPath(out)).length <= before) beforeFirstStep++;
    const found = newestValidCheckpoint(checkpointsFolder(out));
    damaged += found.damaged.length;
  }
  place.ok([...args(out), ...(existsSync(logPath(out)) ? ['--resume'] : [])]);
  console.log({ kills, beforeFirstStep, steps, damaged });
  expect(figuresOf(out)).toEqual(figuresOf(place.path('straight')));
  expect(damaged).toBe(0);
});
