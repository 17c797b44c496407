// TensorBoard's event files: the record's bytes, and that they tell a run's curves, also when it was killed and resumed.
import { existsSync, fstatSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { eventRecord } from '../../src/report/tensorboard/event-record.ts';
import { openScalarFile } from '../../src/report/tensorboard/scalar-file.ts';
import { readRun } from '../../src/runs/reader.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { runEvent, trainEvent, writeLog } from '../runs/run-log.ts';
import { tinyModel, workplace } from '../support/cli.ts';
import { curves, eventFiles, readEvents } from './event-files.ts';

/** Descriptors whose fsync failed; undefined: the disk is well. */
const disk = vi.hoisted(() => ({ failed: undefined as number[] | undefined }));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const fsyncSync = (file: number) => {
    if (!disk.failed) return fs.fsyncSync(file);
    disk.failed.push(file);
    throw new Error('EIO: i/o error, fsync');
  };
  return { ...fs, fsyncSync };
});

const place = workplace('each');
afterEach(() => {
  disk.failed = undefined;
});

it.each([0, 1, 127, 128, 300, 16_383, 16_384, 2 ** 31, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER])(
  'a record of step %i',
  (step) => {
    const long = 'ö'.repeat(100);
    place.file('x', eventRecord(1.5, step, { scalars: { 'train/loss': 0.1, [long]: Number.NaN } }));
    const scalars = { 'train/loss': Math.fround(0.1), [long]: Number.NaN };
    expect(readEvents(place.path('x'))).toEqual([{ seconds: 1.5, step, version: undefined, isStart: false, scalars }]);
  },
);

describe('the file', () => {
  it('names its version, says where it starts, then what there is to plot', () => {
    const file = openScalarFile(place.path('tb'), { folder: '', startStep: 7, notice: () => {} });
    const before = Date.now() / 1000 - 1;
    file.add(runEvent());
    file.add({ event: 'val', step: 7, loss: 11 });
    file.add({ event: 'sample', step: 7, text: 'x' });
    file.add(trainEvent(7, 10.5, Number.POSITIVE_INFINITY, 3e-4));
    file.add({ event: 'hellaswag', step: 8, acc: 0.25, accNorm: 0.5, questions: 4 });
    file.close();
    const [name, ...others] = eventFiles(place.path('tb'));
    expect(others).toEqual([]);
    const events = readEvents(place.path('tb', name!));
    expect(events.map(({ step, version, isStart, scalars }) => ({ step, version, isStart, scalars }))).toEqual([
      { step: 7, version: 'brain.Event:2', isStart: false, scalars: {} },
      { step: 7, version: undefined, isStart: true, scalars: {} },
      { step: 7, version: undefined, isStart: false, scalars: { 'val/loss': 11 } },
      {
        ...{ step: 7, version: undefined, isStart: false },
        scalars: { 'train/loss': 10.5, norm: Number.POSITIVE_INFINITY, lr: Math.fround(3e-4), tokens_per_second: 10 },
      },
      { step: 8, version: undefined, isStart: false, scalars: { 'hellaswag/acc': 0.25, 'hellaswag/acc_norm': 0.5 } },
    ]);
    for (const { seconds } of events) expect(Math.abs(seconds - before)).toBeLessThan(60);
  });

  it('starts within one second lie in their order', () => {
    for (let start = 0; start < 12; start++) {
      openScalarFile(place.path('run'), { folder: place.path('tb'), startStep: start, notice: () => {} }).close();
    }
    const starts = eventFiles(place.path('tb')).map((name) => readEvents(place.path('tb', name))[1]!.step);
    expect(starts).toEqual(Array.from({ length: 12 }, (_, start) => start));
  });
});

it('a disk that fails at the end is told, and the file is closed', () => {
  const notices: string[] = [];
  const notice = (text: string) => void notices.push(text);
  const file = openScalarFile(place.path('tb'), { folder: '', startStep: 0, notice });
  disk.failed = [];
  file.close();
  expect(notices).toEqual([expect.stringMatching(/gpt2 may lack steps: EIO: i\/o error, fsync; the log has them$/)]);
  expect(disk.failed).toHaveLength(1);
  expect(() => fstatSync(disk.failed![0]!)).toThrow('EBADF');
});

it('the file of a run that goes on: has what was measured at the step it goes on from, each as logged last', () => {
  const events: RunEvent[] = [
    runEvent(),
    { event: 'val', step: 5, loss: 12 },
    { event: 'hellaswag', step: 5, acc: 0.75, accNorm: 0.75, questions: 4 },
    { event: 'val', step: 10, loss: 9 },
    { event: 'val', step: 10, loss: 11 },
    { event: 'hellaswag', step: 10, acc: 0.25, accNorm: 0.5, questions: 4 },
  ];
  writeLog(place.path('run'), events);
  openScalarFile(place.path('run'), { folder: '', startStep: 10, notice: () => {} }).close();
  expect(curves(place.path('run'))).toEqual({
    'val/loss': [[10, 11]],
    'hellaswag/acc': [[10, 0.25]],
    'hellaswag/acc_norm': [[10, 0.5]],
  });
});

describe('train --tensorboard', () => {
  const train = (...more: string[]) => [
    ...['train', '--data', 'data', '--out', 'run', ...tinyModel, '--seq', '32', '--steps', '40', '--save-every', '10'],
    ...['--val-every', '10', '--val-steps', '1', '--tensorboard', ...more],
  ];
  const logged = () => {
    const { events, series } = readRun(place.path('run'));
    const single = (points: readonly (readonly [number, number])[]) =>
      points.map(([step, value]) => [step, Math.fround(value)]);
    const rates = events.flatMap((event) =>
      event.event === 'train' ? [[event.step, event.tokensPerSecond] as const] : [],
    );
    return {
      'train/loss': single(series.train),
      norm: single(series.norm),
      lr: single(series.lr),
      tokens_per_second: single(rates),
      'val/loss': single(series.val),
    };
  };

  it('has the curves of the log, and of a run that was lost and resumed each step once', () => {
    place.data({ vocabulary: 128 });
    expect(place.run(train('--stop-after', '30')).code).toBe(0);
    expect(curves(place.path('run'))).toEqual(logged());
    // As if it had been killed before its last checkpoint was whole.
    rmSync(place.path('run', 'checkpoints', 'step-00000030'), { recursive: true });
    const { code, stdout } = place.run(['train', '--out', 'run', '--resume', '--tensorboard']);
    expect([code, stdout.includes('from step 20')]).toEqual([0, true]);
    expect(eventFiles(place.path('run'))).toHaveLength(2);
    const seen = curves(place.path('run'));
    expect(seen).toEqual(logged());
    expect(seen['train/loss']!.map(([step]) => step)).toEqual(Array.from({ length: 40 }, (_, step) => step));
    expect(seen['val/loss']!.map(([step]) => step)).toEqual([0, 10, 20, 30, 40]);
    // Begun anew, nothing of before counts.
    expect(place.run(train('--overwrite', '--stop-after', '5')).code).toBe(0);
    expect(curves(place.path('run'))).toEqual(logged());
  });

  it('into a folder of its own; one that cannot be is told before training', () => {
    place.data({ vocabulary: 128 });
    expect(place.run(train('boards/a', '--stop-after', '3')).code).toBe(0);
    expect(eventFiles(place.path('run'))).toEqual([]);
    expect(curves(place.path('boards', 'a'))).toEqual(logged());
    place.file('file', '');
    const { code, stdout, stderr } = place.run(train(join('file', 'x'), '--overwrite'));
    expect([code, stdout.includes('step')]).toEqual([1, false]);
    // The file that was to be overwritten is still there.
    expect(readRun(place.path('run')).series.train).toHaveLength(3);
    expect(existsSync(place.path('run', 'checkpoints'))).toBe(true);
    expect(stderr).toMatch(
      /^cannot write TensorBoard's events to file\/x: .* name another folder with --tensorboard\n$/,
    );
  });
});
