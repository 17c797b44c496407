// Writes, continues and reads logs of run folders, of which each holds one run.
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { beforeEach, expect, it, vi } from 'vitest';
import { readRun } from '../../src/runs/reader.ts';
import { formatEvent, parseEvent } from '../../src/runs/schema.ts';
import { RunLog } from '../../src/runs/writer.ts';
import { workplace } from '../support/cli.ts';
import { configuration, runEvent, trainEvent } from './run-log.ts';

/** Syncs and renames, in order. */
const durable: string[] = [];
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const paths = new Map<number, string>();
  return {
    ...fs,
    openSync: (path: string, flags: string | number, mode?: number) => {
      const file = fs.openSync(path, flags, mode);
      paths.set(file, path);
      return file;
    },
    fsyncSync: (file: number) => {
      durable.push(`sync ${paths.get(file)}`);
      fs.fsyncSync(file);
    },
    renameSync: (from: string, to: string) => {
      durable.push(`rename to ${to}`);
      fs.renameSync(from, to);
    },
  };
});

const place = workplace('each');
let run: string;
beforeEach(() => {
  run = place.path('runs', 'a');
});

it('numbers keep all their digits; those JSON lacks are words', () => {
  for (const loss of [
    Math.fround(10.1),
    1 / 3,
    5e-324,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
  ]) {
    const line = formatEvent({ event: 'val', step: 1, loss });
    expect(line.endsWith('\n')).toBe(true);
    expect(parseEvent(line)).toEqual({ event: 'val', step: 1, loss });
  }
  expect(formatEvent({ event: 'val', step: 1, loss: Number.NaN })).toMatch(
    /^\{"event":"val","step":1,"loss":"NaN","crc32":"[0-9a-f]{8}"\}\n$/,
  );
});

it('refuses a line that is no event', () => {
  expect(() => parseEvent('{"event":"val","step":-1,"loss":1}')).toThrow();
  expect(() => parseEvent('{"event":"other"}')).toThrow();
});

it('a folder that holds a run is refused, replaced with overwrite, continued with resume', () => {
  const log = RunLog.create(run, { configuration, overwrite: false });
  log.write(runEvent());
  const bytes = log.bytes;
  log.write(trainEvent(0, 2));
  log.close();
  log.close();
  expect(() => RunLog.create(run, { configuration, overwrite: false })).toThrow(
    /already holds a run: continue it with --resume, replace it with --overwrite/,
  );

  const resumed = RunLog.resume(run, { configuration, bytes });
  expect(resumed.bytes).toBe(bytes);
  resumed.write(trainEvent(0, 3));
  resumed.close();
  expect(readRun(run).series.train).toEqual([[0, 3]]);

  RunLog.create(run, { configuration, overwrite: true }).close();
  expect(readFileSync(`${run}/log.jsonl`, 'utf8')).toBe('');
  expect(JSON.parse(readFileSync(`${run}/config.json`, 'utf8'))).toMatchObject(configuration);
});

it('config.json is on the disk before and after it has its name', () => {
  RunLog.create(run, { configuration, overwrite: false }).close();
  const wanted = [
    `sync ${run}/config.json.tmp`,
    `rename to ${run}/config.json`,
    `sync ${run}`,
    `sync ${run}/log.jsonl`,
  ];
  expect(durable.filter((call) => call.includes(run))).toEqual(wanted);
});

it('nothing is written through a link where config.json is put together', () => {
  const other = place.path('other');
  writeFileSync(other, 'of another program');
  mkdirSync(run, { recursive: true });
  const start = () => RunLog.create(run, { configuration, overwrite: true });
  const resume = () => RunLog.resume(run, { configuration, bytes: 0 });
  for (const open of [start, resume]) {
    symlinkSync(other, `${run}/config.json.tmp`);
    open().close();
    expect(readFileSync(other, 'utf8')).toBe('of another program');
    expect(readdirSync(run).sort()).toEqual(['config.json', 'log.jsonl']);
    const written = JSON.parse(readFileSync(`${run}/config.json`, 'utf8'));
    expect(written).toEqual({ ...configuration, sha256: expect.any(String) });
  }
});

it('a folder that cannot be made says so in one line', () => {
  writeFileSync(place.path('file'), '');
  expect(() => RunLog.create(place.path('file', 'run'), { configuration, overwrite: false })).toThrow(
    /cannot write the run folder .*; name another with --out/,
  );
});

it('reads back series in order of steps, the later of two values, without a torn last line', () => {
  const log = RunLog.create(run, { configuration, overwrite: false });
  for (const event of [
    runEvent(),
    trainEvent(0, 3),
    trainEvent(1, 2),
    { event: 'val', step: 1, loss: 9 } as const,
    trainEvent(0, 4),
  ])
    log.write(event);
  log.close();
  appendFileSync(`${run}/log.jsonl`, '{"event":"tra');
  const { series, configuration: read } = readRun(run);
  expect(series).toEqual({
    train: [
      [0, 4],
      [1, 2],
    ],
    val: [[1, 9]],
    norm: [
      [0, 1.5],
      [1, 1.5],
    ],
    lr: [
      [0, 3e-4],
      [1, 3e-4],
    ],
  });
  expect(read).toEqual(configuration);
});

it('a damaged line in the middle, an empty log and a folder without one are named', () => {
  RunLog.create(run, { configuration, overwrite: false }).close();
  expect(() => readRun(run)).toThrow('nothing was trained yet');
  writeFileSync(`${run}/log.jsonl`, `${formatEvent(runEvent())}{"event":\n${formatEvent(trainEvent(0, 1))}`);
  expect(() => readRun(run)).toThrow(/log\.jsonl line 2 is damaged/);
  expect(() => readRun(place.path('none'))).toThrow(/none does not exist; name a folder that train wrote/);
  expect(existsSync(place.path('none'))).toBe(false);
});
