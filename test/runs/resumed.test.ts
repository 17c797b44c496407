// Reads logs of runs that were continued, killed, or written by another version; runs.test.ts has the simple cases.
import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeEach, expect, it } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { formatEvent, parseEvent } from '../../src/runs/schema.ts';
import { RunLog } from '../../src/runs/writer.ts';
import { workplace } from '../support/cli.ts';
import { configuration, runEvent, trainEvent } from './run-log.ts';

const place = workplace('each');
let run: string;
let log: string;
beforeEach(() => {
  run = place.path('run');
  log = place.path('run', 'log.jsonl');
});

it('any number comes back as it was (property)', () => {
  fc.assert(
    fc.property(fc.double(), fc.nat(), (loss, step) => {
      const event = { event: 'val', step, loss: loss + 0 } as const;
      expect(parseEvent(formatEvent(event))).toEqual(event);
    }),
  );
});

it('fields of a later version are let through and kept', () => {
  const line = '{"event":"val","step":3,"loss":2.5,"accuracy":0.25}';
  expect(parseEvent(line)).toEqual({ event: 'val', step: 3, loss: 2.5, accuracy: 0.25 });
  const later = { ...runEvent(), configuration: { ...configuration, experts: 8 }, ranks: 8 };
  expect(parseEvent(formatEvent(later))).toEqual(later);
});

it.each([
  ['schedule', 'sawtooth'],
  ['order', 'random'],
  ['dtype', 'fp16'],
  ['steps', 1.5],
  ['overfitBatch', 'yes'],
])('a configuration whose %s is %s is refused', (field, value) => {
  const wrong = { ...runEvent(), configuration: { ...configuration, [field]: value } };
  expect(() => parseEvent(JSON.stringify(wrong))).toThrow();
});

it('a start from step s takes back the steps from s on, and keeps the validation of s', () => {
  const series = [0, 1, 2, 3].map((step) => trainEvent(step, 10 - step));
  const val = [0, 2, 4].map((step) => ({ event: 'val', step, loss: 20 - step }) as const);
  const lines = [
    runEvent(),
    val[0]!,
    ...series.slice(0, 2),
    val[1]!,
    ...series.slice(2),
    val[2]!,
    { ...runEvent(), resumedFrom: 2, configuration: { ...configuration, steps: 3 } },
    trainEvent(2, 1),
  ];
  RunLog.create(run, { configuration, overwrite: false }).close();
  writeFileSync(log, lines.map(formatEvent).join(''));
  const read = readRun(run);
  expect(read.series.train).toEqual([
    [0, 10],
    [1, 9],
    [2, 1],
  ]);
  expect(read.series.norm.map(([step]) => step)).toEqual([0, 1, 2]);
  expect(read.series.val).toEqual([
    [0, 20],
    [2, 18],
  ]);
  expect(read.configuration.steps).toBe(3);
  expect(read.events).toHaveLength(lines.length);
});

it('a start from nothing takes back all', () => {
  RunLog.create(run, { configuration, overwrite: false }).close();
  const lines = [
    runEvent(),
    { event: 'val', step: 0, loss: 1 } as const,
    trainEvent(0, 5),
    trainEvent(1, 4),
    runEvent(),
  ];
  writeFileSync(log, lines.map(formatEvent).join(''));
  expect(readRun(run).series).toEqual({ train: [], val: [], norm: [], lr: [] });
});

it('resume cuts to the length given, and what is torn with it', () => {
  const written = RunLog.create(run, { configuration, overwrite: false });
  written.write(runEvent());
  const { bytes } = written;
  written.write(trainEvent(0, 1));
  written.close();
  appendFileSync(log, '{"event":"tra');
  RunLog.resume(run, { configuration, bytes }).close();
  expect(readFileSync(log, 'utf8')).toBe(formatEvent(runEvent()));
});

it('resume of a log that lost its end starts on a line of its own', () => {
  const written = RunLog.create(run, { configuration, overwrite: false });
  written.write(runEvent());
  written.write(trainEvent(0, 1));
  const { bytes } = written;
  written.close();
  const whole = readFileSync(log);
  writeFileSync(log, whole.subarray(0, bytes - 7));
  const resumed = RunLog.resume(run, { configuration, bytes });
  expect(resumed.bytes).toBe(Buffer.byteLength(formatEvent(runEvent())));
  resumed.write(trainEvent(0, 2));
  resumed.close();
  expect(readRun(run).series.train).toEqual([[0, 2]]);
});

it.each([
  ['a torn line', '{"event":"train","step":2,"lo'],
  ['zeros', '\0'.repeat(4096)],
  ['a torn line and garbage in lines', '{"event":"train","step":2,"lo\u0007\x9f}\nq3\n\n{"event":"?"}\n\xff\n'],
  ['lines of another file', '<html>\n</html>\n'],
])('resume of a log that ends in %s goes on behind the last event', (_, garbage) => {
  RunLog.create(run, { configuration, overwrite: false }).close();
  const kept = [runEvent(), trainEvent(0, 2), trainEvent(1, 2)].map(formatEvent).join('');
  for (const cut of [0, 1]) {
    writeFileSync(log, Buffer.concat([Buffer.from(kept), Buffer.from(garbage, 'latin1')]));
    const bytes = readFileSync(log).length - cut;
    const resumed = RunLog.resume(run, { configuration, bytes });
    resumed.write(trainEvent(2, 1));
    resumed.close();
    expect(readFileSync(log, 'utf8')).toBe(kept + formatEvent(trainEvent(2, 1)));
  }
  writeFileSync(log, Buffer.from(garbage, 'latin1'));
  RunLog.resume(run, { configuration, bytes: 1e6 }).close();
  expect(readFileSync(log).length).toBe(0);
});

it('resume makes the log where there is none', () => {
  mkdirSync(run);
  const resumed = RunLog.resume(run, { configuration, bytes: 500 });
  expect(resumed.bytes).toBe(0);
  expect(resumed.write(runEvent())).toBe(readFileSync(log, 'utf8'));
  expect(resumed.bytes).toBe(readFileSync(log).length);
  resumed.close();
});

it('a folder below a file cannot be resumed, and says so in one line', () => {
  writeFileSync(place.path('file'), '');
  expect(() => RunLog.resume(place.path('file', 'run'), { configuration, bytes: 0 })).toThrow(
    /^cannot continue the log [^\n]*ENOTDIR[^\n]*$/,
  );
});
