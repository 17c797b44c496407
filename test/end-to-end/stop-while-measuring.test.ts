// A run that is asked to stop while it measures something stops then, and tells what it left out when it is resumed.
import { expect, it } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { train } from '../../src/train/train.ts';
import { workplace } from '../support/cli.ts';
import { parseOptions } from '../support/options.ts';

const place = workplace('each');
const sizes =
  '--layers 1 --channels 32 --heads 2 --context 64 --device cpu --seq 16 --batch 1 --steps 3 --save-every 1';

/** Validation of about a minute, and of several where the machine is busy; steps and everything else of milliseconds. */
it.each<[string, number, slow: object, quick: object, due: (event: RunEvent) => boolean]>([
  ['before the first step', 0, { valSteps: 200_000 }, { valSteps: 2 }, ({ event }) => event === 'run'],
  [
    'after the last',
    3,
    { valTokens: 'all' },
    { valTokens: 32, valEvery: 3 },
    (event) => event.event === 'train' && event.step === 2,
  ],
])('stops in the validation %s', async (_, step, slow, quick, isDue) => {
  const [out, data] = [place.path('run'), place.data({ val: 4_000_000, vocabulary: 50257 })];
  const given = { ...parseOptions(sizes), data, out };
  if (step > 0) await train({ ...given, ...quick, stopAfter: 2 });
  const controller = new AbortController();
  let asked = 0;
  const onEvent = (event: RunEvent) => {
    if (!isDue(event)) return;
    setTimeout(() => {
      asked = performance.now();
      controller.abort(143);
    }, 500);
  };
  const started = train(step > 0 ? { out, resume: true, ...slow } : { ...given, ...slow }, {
    ...{ onEvent, signal: controller.signal },
  });
  await expect(started).rejects.toMatchObject({
    ...{ exitCode: 143, message: expect.stringContaining(`stopped after ${step} of 3 steps and saved`) },
  });
  expect(performance.now() - asked).toBeLessThan(30_000);
  expect(readRun(out).series.val.map(([at]) => at)).toEqual(step === 0 ? [] : [0]);

  await train({ out, resume: true, ...quick });
  const { events, series } = readRun(out);
  expect(series.val.map(([at]) => at)).toEqual([0, 3]);
  expect(series.train.map(([at]) => at)).toEqual([0, 1, 2]);
  expect(events.at(-1)?.event).toBe('done');
  expect(await train({ out, resume: true })).toMatchObject({ steps: 3 });
});
