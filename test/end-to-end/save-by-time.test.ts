// Saves by time: a killed run loses seconds, ranks save the same step, old checkpoints make place, and one command starts and
// continues a run.
import { rmSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { train } from '../../src/train/train.ts';
import { listCheckpoints, stepOf, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, workplace } from '../support/cli.ts';
import { eventsOf } from '../support/figures.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { tinyRun } from '../support/tiny-run.ts';
import { until } from '../support/until.ts';

const place = workplace();
rankData(place);

const of = <K extends RunEvent['event']>(run: string, kind: K) => eventsOf(place.path(run), kind);
const curveOf = (run: string) => new Map(of(run, 'train').map(({ step, loss }) => [step, loss]));
const stepsSaved = (run: string) => listCheckpoints(checkpointsFolder(place.path(run))).map(stepOf);
const command = `train --data data ${tinyModel.join(' ')} --val-every 0 --sample-every 0 --seq 32 --batch 2 --steps 2000`;

it('one command starts a run, continues it after kill -9 from its last seconds, and does nothing when it is done', async () => {
  const again = `${command} --save-every 0.1s --out killed --resume auto`;
  for (const saves of [0, 2]) {
    const { child, ended } = place.begin(again);
    await until(() => expect(of('killed', 'checkpoint').length).toBeGreaterThan(saves));
    child.kill('SIGKILL');
    await ended;
  }
  const killedAt = of('killed', 'train').at(-1)!.step;
  expect((await place.okHere(again)).stdout).toMatch(/from step \d+,/);
  const starts = of('killed', 'run').map(({ resumedFrom }) => resumedFrom ?? 0);
  expect(starts[0]).toBe(0);
  expect(starts[1]).toBeGreaterThan(0);
  expect(starts[2]).toBeGreaterThan(starts[1]!);
  expect(starts[2]).toBeLessThanOrEqual(killedAt + 1);
  expect((await place.okHere(again)).stdout).toMatch(/is finished: 2000 of 2000/);

  await place.okHere(`${command} --save-every 0 --out straight`);
  expect(curveOf('killed')).toEqual(curveOf('straight'));
  expect(of('killed', 'done').at(-1)!.weights).toBe(of('straight', 'done').at(-1)!.weights);

  const other = await place.here(`${again} --seed 7`);
  expect(other).toMatchObject({ code: 1, stderr: expect.stringMatching(/with --seed 7: it was trained with 42/) });
});

it('two ranks save after the same step, when the clock of rank 0 says so', () => {
  const args = ['train', ...tinyRanks, ...sharedSteps, '--val-every', '0', '--steps', '200', '--gpus', '2'];
  place.ok([...args, '--save-every', '0.1s', '--keep', '1000', '--out', 'timed']);
  place.ok([...args, '--save-every', '0', '--out', 'untimed']);
  expect(stepsSaved('untimed')).toEqual([200]);
  expect(curveOf('timed')).toEqual(curveOf('untimed'));
  const saved = listCheckpoints(checkpointsFolder(place.path('timed')));
  const [middle, ...later] = saved.slice(Math.floor(saved.length / 2) - 1);
  expect(verifyCheckpoint(middle!).manifest.timed).toBe(true);
  const { weights } = of('untimed', 'done')[0]!;
  expect(of('timed', 'done')[0]!.weights).toBe(weights);
  // The parts of both ranks are of one step: the run continues from there to the same weights.
  for (const path of later) rmSync(path, { recursive: true });
  place.ok(['train', '--out', 'timed', '--resume', '--save-every', '0']);
  expect(of('timed', 'run').at(-1)!.resumedFrom).toBe(stepOf(middle!));
  expect(of('timed', 'done').at(-1)!.weights).toBe(weights);
});

describe('checkpoints made by time', () => {
  const data = place.path('data');

  it('make place for newer ones; those made by steps or at a stop stay', async () => {
    const out = place.path('places');
    await train({ ...tinyRun, data, out, steps: 600, saveEvery: 20, stopAfter: 50 });
    await train({ out, resume: true, saveEvery: '0.03s', stopAfter: 500 });
    const saved = of('places', 'checkpoint').map(({ step }) => step);
    expect(new Set(saved).size).toBeGreaterThan(6);
    const timed = saved.filter((step) => step > 50 && step < 500);
    expect(stepsSaved('places')).toEqual([20, 40, 50, ...timed.slice(-2), 500]);
    await train({ out, resume: true, keep: 1 });
    expect(stepsSaved('places')).toEqual([600]);
  });

  it('are not made by a resumed run whose configuration says 0', async () => {
    const out = place.path('earlier');
    await train({ ...tinyRun, data, out, steps: 40, saveEvery: 0, stopAfter: 10 });
    vi.spyOn(performance, 'now').mockImplementation(() => Date.now() * 1e6);
    await train({ out, resume: true });
    expect(stepsSaved('earlier')).toEqual([10, 40]);
    expect(of('earlier', 'run').map(({ configuration }) => configuration.saveEvery)).toEqual([0, 0]);
  });
});
