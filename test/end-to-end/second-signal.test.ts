// A second signal while a run that was asked to stop is saved: a second Ctrl-C ends it at once, what follows an announcement
// does not.
import { readdirSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, Workplace } from '../support/cli.ts';
import { newKernels } from '../support/lab.ts';
import { until } from '../support/until.ts';

/** A checkpoint of 540 MB: longer to write than signals count as one. */
const model = '--layers 6 --channels 512 --heads 8 --context 16 --seq 16 --batch 1 --device cpu';

/** Starts a run, asks it to stop, and gives it while it is being saved. */
async function savingRun(place: Workplace, signal: NodeJS.Signals) {
  place.data({ vocabulary: 50257 });
  const options = '--steps 1000 --save-every 2 --keep 1 --val-every 0 --sample-every 0 --data data --out run --json';
  const { child, said, ended } = place.begin(`train ${model} ${options}`);
  await until(() => expect(said.stdout).toContain('"event":"checkpoint"'));
  process.kill(-child.pid!, signal);
  while (!said.stderr.includes('stopping')) await setTimeout(5);
  await setTimeout(520);
  expect(child.exitCode, 'the save was done before the second signal: make the model larger').toBeNull();
  return { child, ended, errors: () => said.stderr };
}

it('a second Ctrl-C ends a run while it saves, and leaves the last checkpoint whole', async () => {
  using place = new Workplace();
  const { child, ended, errors } = await savingRun(place, 'SIGINT');
  process.kill(-child.pid!, 'SIGINT');
  expect(await ended, errors()).toMatchObject({ code: 130 });
  // Whoever waits for the save says that it is done.
  expect(errors()).not.toContain('and saved');

  const folder = checkpointsFolder(place.path('run'));
  const { checkpoint, damaged } = newestValidCheckpoint(folder);
  expect(damaged).toEqual([]);
  const next = checkpoint!.manifest.step + 1;
  place.ok(['train', '--out', 'run', '--resume', '--stop-after', String(next)]);
  // The files of the interrupted save are gone.
  expect(readdirSync(folder)).toEqual([`step-${String(next).padStart(8, '0')}`]);
});

it('SIGTERM after SIGUSR1, as Slurm sends them, leaves the save alone', async () => {
  using place = new Workplace();
  const { child, ended, errors } = await savingRun(place, 'SIGUSR1');
  process.kill(-child.pid!, 'SIGTERM');
  expect(await ended, errors()).toMatchObject({ code: 138 });
  expect(errors()).toMatch(/stopped after \d+ of 1000 steps and saved/);
});

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('a second %s ends a run whose kernel does not end, with %i', async (signal, exitCode) => {
  using place = new Workplace();
  place.data();
  const loop = '  printf("runs\\n");\n  for (volatile int i = 0; i == 0;) {}\n';
  newKernels(place.path('endless'), { source: (text) => text.replace(/(void gelu_forward\(.*\n)/, `$1${loop}`) });
  const options = '--steps 2 --seq 16 --batch 1 --val-every 0 --sample-every 0 --data data --out run --kernel endless';
  const { child, said, ended } = place.begin(['train', ...tinyModel, ...options.split(' ')]);
  await until(() => expect(said.stdout).toContain('runs\n'));
  child.kill(signal);
  await setTimeout(600);
  const second = performance.now();
  child.kill(signal);
  expect(await ended, said.stderr).toEqual({ code: exitCode, signal: null });
  expect(performance.now() - second).toBeLessThan(5000);
  expect(said.stderr).toContain('stopped at once, while the kernel gelu_forward ran\n');
});
