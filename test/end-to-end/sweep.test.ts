// `train --sweep` as a user runs it: every combination in a folder of its own, what fails, what the same command does again.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { beforeEach, expect, it } from 'vitest';
import { libraryPath } from '../../src/native/find-library.ts';
import { readRun } from '../../src/runs/reader.ts';
import { tinyModel, withCode, workplace } from '../support/cli.ts';
import { eventsOf, jsonLines } from '../support/figures.ts';
import { until } from '../support/until.ts';

const place = workplace('each');
let args: string[];
beforeEach(() => {
  const data = ['--data', place.data({ vocabulary: 128 }), '--batch', '2', '--seq', '16'];
  const every = ['--val-every', '4', '--val-steps', '1', '--sample-every', '0'];
  args = ['train', '--model', 'custom', ...tinyModel, ...data, ...every, '--out', 'sweep'];
});

const starts = (run: string) => eventsOf(place.path('sweep', run), 'run').map(({ resumedFrom }) => resumedFrom ?? 0);

it('continues unfinished runs whose batch was chosen', () => {
  const memory = ['--batch', 'auto', '--max-memory', '0.1'];
  const command = [...args, ...memory, '--steps', '3', '--val-every', '0', '--sweep', 'seed=1,2'];
  place.ok([...command, '--stop-after', '1']);
  // Without a validation none is the best.
  const { stdout } = place.ok(command);
  expect(stdout).toMatch(/\nnext: .* compare sweep\/\*\n$/);
  for (const run of ['seed=1', 'seed=2']) expect(starts(run)).toEqual([0, 1]);
});

it('trains all combinations; a failed run stops no other; the same command trains what is missing', () => {
  const command = [...args, '--steps', '8', '--sweep', 'learningRate=1e-3,1e30', '--sweep', 'seed=1,2'];
  const first = withCode(1, place.run(command));
  expect(first.stdout).toMatch(/^4 runs in sweep, 0 of them finished before\nlr=1e-3,seed=1\n/);
  const [ranked = '', next] = first.stdout.slice(first.stdout.indexOf('Ranking')).split('next: ');
  const ranking = ranked.trimEnd().split('\n');
  // Once, at the end: the best run, and all of them.
  expect(first.stdout.match(/^next: /gm)).toHaveLength(1);
  expect(next).toMatch(/sample .*--model sweep\/lr=1e-3,seed=[12] --prompt .+\n {6}np.* compare sweep\/\*\n$/);
  expect(ranking[1]).toMatch(/^run +seed +lr +last val +best val +at step +steps +state$/);
  const names = ranking.slice(2).map((line) => line.split(/ +/)[0]);
  expect(names.sort()).toEqual(['lr=1e-3,seed=1', 'lr=1e-3,seed=2', 'lr=1e30,seed=1', 'lr=1e30,seed=2']);
  // The tokens are random, so a run may be no better after 8 steps than before the first.
  expect(ranked).toMatch(/^lr=1e-3,seed=1 +1 +0\.001 .* 8\/8 +finished$/m);
  expect(ranked).toMatch(/^lr=1e30,seed=1 +1 +1e\+30 .* 1\/8 +failed$/m);
  expect(first.stderr.trimEnd().split('\n').at(-1)).toBe(
    '2 of 4 runs failed: lr=1e30,seed=1 ended with 1; lr=1e30,seed=2 ended with 1; the same command with --out sweep tries them again',
  );

  rmSync(place.path('sweep', 'lr=1e-3,seed=2'), { recursive: true });
  const again = place.ok([...args, '--steps', '8', '--sweep', 'lr=1e-3', '--sweep', 'seed=1,2', '--json']);
  const lines = jsonLines(again.stdout);
  expect(new Set(lines.slice(0, -1).map(({ run }) => run))).toEqual(new Set(['sweep/lr=1e-3,seed=2']));
  expect(lines.at(-1)).toMatchObject({ out: 'sweep', failures: [], ranking: [{ state: 'finished' }, {}] });
  expect(starts('lr=1e-3,seed=1')).toEqual([0]);
});

it('a stop saves the run, ends the sweep, and the same command continues it; more steps continue all', async () => {
  const { child, ended } = place.begin([...args, '--steps', '3000', '--val-every', '0', '--sweep', 'seed=1,2']);
  const log = place.path('sweep/seed=1/log.jsonl');
  await until(() => expect(readFileSync(log, 'utf8')).toContain('"step":20,'));
  child.kill('SIGTERM');
  expect(await ended).toMatchObject({ code: 143 });
  expect(existsSync(place.path('sweep/seed=2'))).toBe(false);
  const done = readRun(place.path('sweep/seed=1')).series.train.length;
  expect(done).toBeLessThan(3000);
  const steps = String(done + 5);
  expect(place.run([...args, '--steps', steps, '--sweep', 'seed=1,2'])).toMatchObject({ code: 0 });
  expect(starts('seed=1')).toEqual([0, done]);
  expect(starts('seed=2')).toEqual([0]);
});

it('with several GPUs, a run on each: lines begin with the name of their run', () => {
  // The CPU library stands for CUDA's; CUDA_VISIBLE_DEVICES names the GPUs.
  const env = { GPT2_LIBRARY: libraryPath('cpu'), CUDA_VISIBLE_DEVICES: '3,5' };
  const options = ['--device', 'cuda', '--dtype', 'fp32', '--steps', '2', '--sweep', 'seed=1,2,3'];
  const { stdout } = place.ok([...args, ...options], env);
  expect(stdout).toMatch(/^3 runs in sweep, 0 of them finished before\nseed=1\nseed=2\n/);
  for (const seed of [1, 2, 3]) expect(stdout).toMatch(new RegExp(`^seed=${seed}: done: 2 steps`, 'm'));
});
