// A run that is asked to stop while it measures something stops then, and tells what it left out when it is resumed.
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { tinyModel, Workplace } from '../support/cli.ts';

/** Validation of about a minute, and of several where the machine is busy; steps and everything else of milliseconds. */
const options = ['--seq', '16', '--batch', '1', '--steps', '3', '--save-every', '1'];

it.each([
  ['before the first step', 0, ['--val-steps', '200000'], ['--val-steps', '2']],
  ['after the last', 3, ['--val-tokens', 'all'], ['--val-tokens', '32']],
])('SIGTERM in the validation %s', async (_, step, slow, quick) => {
  using place = new Workplace();
  place.data({ val: 4_000_000 });
  const run = ['train', '--data', 'data', '--out', 'run', ...tinyModel, ...options];
  const every = step === 0 ? [] : ['--val-every', '3'];
  if (step > 0) place.ok([...run, ...every, ...quick, '--stop-after', '2']);
  const begin = step === 0 ? run : ['train', '--out', 'run', '--resume'];
  const child = place.start([...begin, ...slow, '--json']);
  onTestFinished(() => void child.kill('SIGKILL'));
  let [said, errors] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  while (!said.includes(step === 0 ? '"event":"run"' : '"event":"train","step":2')) await setTimeout(5);
  await setTimeout(500);
  const asked = performance.now();
  child.kill('SIGTERM');
  const [code] = (await once(child, 'close')) as [number | null];
  expect(code, errors).toBe(143);
  expect(performance.now() - asked).toBeLessThan(30_000);
  expect(errors).toContain(`stopped after ${step} of 3 steps and saved`);
  expect(readRun(place.path('run')).series.val.map(([at]) => at)).toEqual(step === 0 ? [] : [0]);

  place.ok(['train', '--out', 'run', '--resume', ...quick]);
  const { events, series } = readRun(place.path('run'));
  expect(series.val.map(([at]) => at)).toEqual([0, 3]);
  expect(series.train.map(([at]) => at)).toEqual([0, 1, 2]);
  expect(events.at(-1)?.event).toBe('done');
  expect(place.run(['train', '--out', 'run', '--resume']).stdout).toContain('is finished: 3 of 3 steps are done');
});
