// Writes, continues and reads logs of run folders, of which each holds one run; also logs of runs that were killed, or written by
// another version, and a log that the disk fails to take.
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { beforeEach, expect, it, vi } from 'vitest';
import { Gpt2Error, readRun, train } from '../../src/index.ts';
import { formatEvent, parseEvent } from '../../src/runs/schema.ts';
import { RunLog } from '../../src/runs/writer.ts';
import { curve } from '../report/runs-to-draw.ts';
import { workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';
import { configuration, runEvent, trainEvent, writeLog } from './run-log.ts';

/** Syncs and renames, in order. */
const durable: string[] = [];
/** The file that no sync succeeds for. */
let failing = '';
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
      if (paths.get(file) === failing) throw new Error('EIO: i/o error, fsync');
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
let log: string;
beforeEach(() => {
  run = place.path('runs', 'a');
  log = place.path('runs', 'a', 'log.jsonl');
});

it('numbers that JSON lacks are words', () => {
  expect(formatEvent({ event: 'val', step: 1, loss: Number.NaN })).toMatch(
    /^\{"event":"val","step":1,"loss":"NaN","crc32":"[0-9a-f]{8}"\}\n$/,
  );
});

it('refuses a line that is no event', () => {
  expect(() => parseEvent('{"event":"val","step":-1,"loss":1}')).toThrow();
  expect(() => parseEvent('{"event":"other"}')).toThrow();
  expect(() => parseEvent('{"event":"val","step":1,"step":2,"loss":1}')).toThrow('the key "step" twice');
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
  const calls = [`sync ${run}/config.json.tmp`, `rename to ${run}/config.json`, `sync ${run}`, `sync ${run}/log.jsonl`];
  expect(durable.filter((call) => call.includes(run))).toEqual(calls);
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

it('reads back series in order of steps, the later of two values, without a torn last line', () => {
  const val = { event: 'val', step: 1, loss: 9 } as const;
  writeLog(run, [runEvent(), trainEvent(0, 3), trainEvent(1, 2), val, trainEvent(0, 4)]);
  appendFileSync(`${run}/log.jsonl`, '{"event":"tra');
  const { series, configuration: read } = readRun(run);
  const [train, norm, lr] = [curve(4, 2), curve(1.5, 1.5), curve(3e-4, 3e-4)];
  expect(series).toEqual({ train, val: [[1, 9]], norm, lr });
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
  writeLog(run, lines);
  const read = readRun(run);
  expect(read.series.train).toEqual(curve(10, 9, 1));
  expect(read.series.norm.map(([step]) => step)).toEqual([0, 1, 2]);
  expect(read.series.val.join(' ')).toBe('0,20 2,18');
  expect(read.configuration.steps).toBe(3);
  expect(read.events).toHaveLength(lines.length);
});

it('a start from nothing takes back all', () => {
  writeLog(run, [runEvent(), { event: 'val', step: 0, loss: 1 }, trainEvent(0, 5), trainEvent(1, 4), runEvent()]);
  expect(readRun(run).series).toEqual({ train: [], val: [], norm: [], lr: [] });
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
    const resumed = RunLog.resume(run, { configuration, bytes: readFileSync(log).length - cut });
    resumed.write(trainEvent(2, 1));
    resumed.close();
    expect(readFileSync(log, 'utf8')).toBe(kept + formatEvent(trainEvent(2, 1)));
  }
  writeFileSync(log, Buffer.from(garbage, 'latin1'));
  RunLog.resume(run, { configuration, bytes: 1e6 }).close();
  expect(readFileSync(log).length).toBe(0);
});

it('resume makes the log where there is none', () => {
  mkdirSync(run, { recursive: true });
  const resumed = RunLog.resume(run, { configuration, bytes: 500 });
  expect(resumed.bytes).toBe(0);
  expect(resumed.write(runEvent())).toBe(readFileSync(log, 'utf8'));
  expect(resumed.bytes).toBe(readFileSync(log).length);
  resumed.close();
});

it('a folder below a file cannot be resumed, and says so in one line', () => {
  place.file('file', '');
  expect(() => RunLog.resume(place.path('file', 'run'), { configuration, bytes: 0 })).toThrow(
    /^cannot continue the log [^\n]*ENOTDIR[^\n]*$/,
  );
});

it('a log that cannot be synced is reported in one sentence, or as a notice if the run ended with another error', async () => {
  const options = { ...tinyRun, data: place.data({ vocabulary: 100 }), steps: 2, out: run };
  failing = log;
  const trouble = `${log} may lack its last lines: EIO: i/o error, fsync; check the disk`;
  await expect(train(options)).rejects.toThrow(new Gpt2Error(trouble));

  const notices: string[] = [];
  const hooks = { signal: AbortSignal.abort(143), onNotice: (text: string) => void notices.push(text) };
  const stopped = train({ ...options, overwrite: true }, hooks);
  await expect(stopped).rejects.toMatchObject({ name: 'StoppedError', exitCode: 143 });
  expect(notices).toContain(trouble);
  expect(readdirSync(`${run}/checkpoints`)).toHaveLength(1);
});
