// A run as its log describes it: the same curves as src/runs reads, the run's state, how it ended, its figures.
import { describe, expect, it } from 'vitest';
import type { Time } from '../../src/base/checks/given.ts';
import { aboutRun } from '../../src/report/live/server.ts';
import { endOf, LoggedRun, stateOf } from '../../src/report/logged-run.ts';
import { tilesOf } from '../../src/report/tiles.ts';
import { pairs } from '../../src/runs/curves.ts';
import { readRun } from '../../src/runs/reader.ts';
import { formatEvent, type RunEvent } from '../../src/runs/schema.ts';
import { WrittenLog } from '../live/streams.ts';
import { runEvent, trainEvent } from '../runs/run-log.ts';
import { Workplace } from '../support/cli.ts';

const runOf = (...events: RunEvent[]) => {
  const run = new LoggedRun();
  run.add(events.map(formatEvent).join('').trimEnd());
  return run;
};
const val = (step: number, loss: number) => ({ event: 'val', step, loss }) as const;
const sample = (step: number, text: string) => ({ event: 'sample', step, text }) as const;
const done = { event: 'done', steps: 3, seconds: 65, weights: 'x' } as const;

it.each([
  [{}, 'done: 3 steps in 1m05s'],
  [{ resumedFrom: 2 }, 'done: 1 step in 1m05s, 3 in all'],
  [{ resumedFrom: 3 }, 'done: 0 steps in 1m05s, 3 in all'],
])('the last line counts the steps since the last start: %j', (start, line) => {
  expect(runOf({ ...runEvent(), ...start }, done).lines.at(-1)).toBe(line);
});

it("a resume keeps the speed of a run until it has a step, whose time replaces the earlier start's", () => {
  const run = runOf(runEvent(), trainEvent(0, 1), { ...runEvent({ totalBatch: 512 }), resumedFrom: 1 });
  expect(run.tokensPerSecond).toBe(256_000);
  run.take({ ...trainEvent(1, 1), ms: 8 });
  expect(run.tokensPerSecond).toBe(64_000);
  run.take({ ...trainEvent(2, 1), ms: 7 });
  expect(run.times).toEqual([8, 7]);
});

describe('curves', () => {
  it('are those that src/runs reads, of numbers that JSON lacks too', () => {
    using place = new Workplace();
    const log = new WrittenLog(place.path('run'));
    const events = [runEvent(), val(0, 11), ...[10, Number.NaN, Infinity].map((loss, step) => trainEvent(step, loss))];
    log.write(...events);
    const { train, val: validations, norm, lr } = runOf(...events).series;
    const series = { train: pairs(train), val: pairs(validations), norm: pairs(norm), lr: pairs(lr) };
    expect(series).toEqual(readRun(log.run).series);
  });

  it('lines that are not events are ignored', () => {
    const run = new LoggedRun();
    run.add(
      `x\n{\nnull\n[]\n"a"\n5\n{"event":5}\n{"event":"later"}\n{"event":"val","step":"1","loss":1}\n${formatEvent(trainEvent(0, 2))}`,
    );
    expect(run.series.train).toEqual({ steps: [0], values: [2] });
    expect(run.series.val.steps).toEqual([]);
  });

  it('keeps the end of a long log and its last samples', () => {
    const run = runOf(
      runEvent(),
      ...Array.from({ length: 5000 }, (_, step) => [trainEvent(step, 1), sample(step, `${step}`)]).flat(),
    );
    expect(run.lines.length).toBeLessThanOrEqual(600);
    expect(run.lines.at(-1)).toMatch(/^step 4999 {3}loss 1\.0000/);
    expect(run.samples).toHaveLength(100);
    expect(run.series.train.steps).toHaveLength(5000);
  });
});

describe('the state', () => {
  const open = { connection: 'open', quiet: 1, steps: 400 } as const;
  const closed = { ...open, connection: 'closed' } as const;
  const going = () => runOf(runEvent(), trainEvent(0, 10), trainEvent(1, 9));
  it.each([
    ['waiting', new LoggedRun(), { ...open, quiet: null, steps: undefined }, 'waiting for the run'],
    ['training', going(), open, 'training after 2 of 400 steps'],
    ['quiet', going(), { ...open, quiet: 185 }, 'stopped after 2 of 400 steps, or stuck: nothing new for 3m05s'],
    ['closed', going(), closed, 'stopped after 2 of 400 steps; continues here when the run does'],
    ['lost', going(), { ...open, connection: 'lost' as const }, 'no connection: the run may have ended; trying again'],
    ['finished', runOf(runEvent(), trainEvent(0, 1), done), closed, 'finished after 1 of 400 steps'],
  ])('%s', (state, run, seen, text) => {
    expect(stateOf(run, seen)).toEqual({ state, text });
  });

  it('a run that stopped at a number that is not finite says where, until it is resumed', () => {
    const bad = { event: 'nonFinite', step: 1, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' } as const;
    const run = runOf(runEvent(), trainEvent(0, 10), bad);
    expect(stateOf(run, open)).toEqual({ state: 'closed', text: 'stopped after 1 of 400 steps: NaN in layer 3' });
    run.add(formatEvent({ ...runEvent(), resumedFrom: 0 }));
    expect(stateOf(run, open).state).toBe('training');
  });

  it('slow steps do not count as silence', () => {
    const run = runOf(runEvent(), { ...trainEvent(0, 10), ms: 20_000 });
    expect(stateOf(run, { ...open, quiet: 300 }).state).toBe('training');
  });
});

describe('how a run ended, by its log alone', () => {
  const bad = { event: 'nonFinite', step: 2, loss: Number.NaN, norm: 1, finding: 'NaN in layer 3' } as const;
  const saved = { event: 'checkpoint', step: 2, path: 'x' } as const;
  const begun = [runEvent(), trainEvent(0, 10), trainEvent(1, 9)];
  const goesOn = { state: 'unfinished', text: 'not finished, 2 of 400 steps done: still running, stopped or killed' };
  const lacks = 'its log lacks 2 of the 5 steps done';
  const of5 = goesOn.text.replace('2', '5');
  const stopped = { state: 'stopped', text: 'stopped after 2 of 400 steps' };
  it.each<[string, RunEvent[], number | Time, object]>([
    ['at its last step', [...begun, saved, done], 0, { state: 'finished', text: 'finished after 2 of 400 steps' }],
    [
      'a number that is not finite',
      [...begun, saved, bad],
      0,
      { state: 'notFinite', text: 'not finite at step 2 of 400: NaN in layer 3' },
    ],
    ['the same, then a resume', [...begun, bad, { ...runEvent(), resumedFrom: 2 }], 0, goesOn],
    ['a save that was not due', [...begun, saved], 0, stopped],
    ['the same, between two that were due', [...begun, saved], 3, stopped],
    ['a save that was due', [...begun, saved], 2, goesOn],
    ['a save by time, for which training did not wait', [...begun, { ...saved, heldMs: 1 }], '10m', goesOn],
    ['a save at a stop, in a run that saves by time', [...begun, saved], '10m', stopped],
    ['the save of an earlier step', [...begun, { ...saved, step: 1 }], 0, goesOn],
    ['a step', begun, 0, goesOn],
    ['a step, others lost', [...begun, trainEvent(4, 8)], 0, { ...goesOn, text: `${of5}; ${lacks}`, gap: lacks }],
    ['nothing yet', [runEvent()], 0, { ...goesOn, text: goesOn.text.replace('2 of', '0 of') }],
  ])('%s', (_, events, saveEvery, end) => {
    expect(endOf(runOf(...events), { steps: 400, saveEvery })).toEqual(end);
  });
});

describe('the figures', () => {
  const tiles = (device: string, dtype: string, machine?: Parameters<typeof tilesOf>[2]) => {
    const start = {
      ...runEvent({ batch: 64, sequence: 1024, totalBatch: 65_536, layers: 12, channels: 768 }),
      device,
      dtype,
    };
    const run = runOf(start, ...[0, 1, 2].map((step) => ({ ...trainEvent(step, 3), ms: 103.3 })));
    return Object.fromEntries(
      tilesOf(run, aboutRun('run', start), machine).map(({ label, value, note }) => [label, `${value} ${note}`]),
    );
  };

  it('MFU is relative to the data sheet, as in bench', () => {
    // 634,424 tokens/s of 797.8 MFLOP each.
    expect(tiles('NVIDIA H100 80GB HBM3', 'bf16')).toMatchObject({
      Throughput: '634,424 tokens/s 103 ms a step',
      MFU: "51.2% 506 of the data sheet's 989 TFLOP/s",
      Left: '41s plus validations',
    });
    expect(tiles('NVIDIA H100 80GB HBM3', 'fp8')).toMatchObject({
      MFU: "25.6% 506 of the data sheet's 1979 TFLOP/s in FP8",
    });
  });

  it('without a data sheet there is a rate and no MFU', () => {
    expect(tiles('CPU', 'fp32')).toMatchObject({ Rate: "506 TFLOP/s the device's peak is unknown" });
    expect(tiles('NVIDIA H100 80GB HBM3', 'fp32')).not.toHaveProperty('MFU');
  });

  it('the known facts about the machine', () => {
    expect(tiles('CPU', 'fp32')).not.toHaveProperty('Process memory');
    const cpu = tiles('CPU', 'fp32', { processMemory: 2 ** 30 });
    expect(cpu).toHaveProperty('Process memory', '1.00 GiB undefined');
    expect(cpu).not.toHaveProperty('GPU memory');
    const gpu = { memoryUsed: 24.1 * 2 ** 30, memoryTotal: 79.6 * 2 ** 30, temperature: 61, load: 1, power: 696.42 };
    expect(tiles('NVIDIA H100', 'bf16', { processMemory: 2 ** 30, gpu })).toMatchObject({
      'GPU memory': '24.1 GiB of 79.6 GiB',
      'GPU temperature': '61 °C 100% busy, 696 W',
      // 634,424 / 696.42
      Throughput: '634,424 tokens/s 103 ms a step, 911 tokens/J',
    });
  });
});
