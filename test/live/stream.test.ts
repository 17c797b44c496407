// The stream of events: every viewer ends with the lines of the log, each once, whenever it comes, goes and comes back, and
// whatever a resume has done to the log meanwhile.
import { EventEmitter } from 'node:events';
import { rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from 'vitest';
import { EventStream } from '../../src/report/live/event-stream.ts';
import { logTailOf } from '../../src/report/live/log-tail.ts';
import { LiveServer } from '../../src/report/live/server.ts';
import { configuration, runEvent, trainEvent } from '../runs/run-log.ts';
import { workplace } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { StreamViewer, WrittenLog } from './streams.ts';

const place = workplace('each');
let log: WrittenLog;
let server: LiveServer;
let viewers: StreamViewer[];

beforeEach(async () => {
  log = new WrittenLog(place.path('run'));
  server = await LiveServer.open({ port: 0, host: '127.0.0.1' });
  viewers = [];
});
afterEach(async () => {
  for (const viewer of viewers) viewer.close();
  await server.close();
});

const view = (lastEventId?: string): StreamViewer => {
  const viewer = new StreamViewer(server.url, lastEventId);
  viewers.push(viewer);
  return viewer;
};
const follow = () => server.follow({ run: log.run });
/** Steps with losses that no other call gives. */
let turn = 0;
const steps = (from: number, to: number) => {
  turn += 1;
  return Array.from({ length: to - from }, (_, index) => trainEvent(from + index, 10 - turn / 7 - index / 1000));
};
const hasAll = (viewer: StreamViewer) => until(() => expect(viewer.lines).toEqual(log.lines));
/** A viewer of a log that has these events, after all have arrived. */
async function watched(...events: Parameters<WrittenLog['write']>): Promise<StreamViewer> {
  log.write(...events);
  follow();
  const viewer = view();
  await hasAll(viewer);
  return viewer;
}

it('a finished run, then what is written while the viewer looks', async () => {
  const viewer = await watched(runEvent(), ...steps(0, 1000));
  log.write(...steps(1000, 1010));
  await hasAll(viewer);
  expect(viewer.lines).toHaveLength(1011);
  expect(viewer.told).not.toContain('reset');
});

it('says what the page is about: name, reference, cost of a token; nothing of paths', async () => {
  const viewer = await watched(runEvent());
  expect(viewer.data.about).toMatchObject({
    figure: { title: 'run vs llmc-d6-fp32-b4-t64', curves: [{ name: 'llmc-d6-fp32-b4-t64' }, { name: 'run' }] },
    steps: 400,
    flopsPerToken: 6 * (12 * 6 * 384 ** 2 + 50257 * 384) + 6 * 6 * 64 * 384,
  });
  expect(viewer.data.about).not.toHaveProperty('dataSheetFlops');
  expect(JSON.stringify(viewer.data)).not.toContain(place.folder);
  // A resume may have been given other options.
  log.write({ ...runEvent({ steps: 500, batch: 8, totalBatch: 512 }), resumedFrom: 0 });
  await until(() => expect(viewer.data.about).toMatchObject({ steps: 500, figure: { title: 'run' } }));
  expect(configuration.steps).toBe(400);
});

it('before there is a run, and before there is a log, viewers wait', async () => {
  rmSync(log.run, { recursive: true });
  const early = view();
  await until(() => expect(early.told).toContain('idle'));
  follow();
  expect(early.lines).toEqual([]);
  log = new WrittenLog(log.run);
  log.write(runEvent(), ...steps(0, 3));
  await hasAll(early);
  expect(early.told).toContain('about');
});

it('a torn last line waits until it is whole; bytes that are no text come as lines of their own', async () => {
  log.write(runEvent());
  const [line] = steps(1, 2).map((event) => JSON.stringify(event));
  log.writeRaw(line!.slice(0, 20));
  follow();
  const viewer = view();
  await until(() => expect(viewer.lines).toEqual(log.lines));
  log.writeRaw(`${line!.slice(20)}\n`);
  await hasAll(viewer);
  expect(viewer.lines.at(-1)).toBe(line);
});

it('a line cannot become a message of its own', async () => {
  log.write(runEvent());
  log.writeRaw('{"event":"sample"}\revent: closed\rdata: {}\r\rid: 5-0000000000000000\n');
  log.write(...steps(0, 1));
  follow();
  const viewer = view();
  await until(() => expect(viewer.lines.at(-1)).toBe(log.lines.at(-1)));
  expect(viewer.told).not.toContain('closed');
  expect(viewer.lines).toContain('event: closed');
});

it('a line of megabytes harms neither what comes before it nor after it', async () => {
  log.write(runEvent());
  log.writeRaw(`${'x'.repeat(3 << 20)}\n`);
  log.write(...steps(0, 2));
  follow();
  const viewer = view();
  await until(() => expect(viewer.lines.at(-1)).toBe(log.lines.at(-1)));
  expect(viewer.lines.filter((line) => line.startsWith('{'))).toEqual(log.lines.filter((line) => line.startsWith('{')));
});

it('a viewer that comes back goes on after its last event', async () => {
  const first = await watched(runEvent(), ...steps(0, 700));
  const seen = first.lines.length;
  first.close();
  log.write(...steps(700, 705));
  const again = view(first.lastEventId);
  await until(() => expect([...first.lines, ...again.lines]).toEqual(log.lines));
  expect(again.lines).toHaveLength(log.lines.length - seen);
  expect(again.told).not.toContain('reset');
});

it('so too with another server of the same run', async () => {
  const first = await watched(runEvent(), ...steps(0, 300));
  await server.close();
  await until(() => expect(first.isClosed).toBe(true));
  expect(first.told.at(-1)).toBe('closed');
  server = await LiveServer.open({ port: 0, host: '127.0.0.1' });
  log.write(...steps(300, 301));
  follow();
  const again = view(first.lastEventId);
  await until(() => expect(again.lines).toEqual(log.lines.slice(-1)));
});

it.each([
  ['shorter than it was', 5],
  ['as long as it was', 40],
  ['longer than it was', 90],
])('a log that a resume cut is told anew, when it is %s', async (_, regrown) => {
  log.write(runEvent(), ...steps(0, 20));
  const saved = log.bytes;
  const present = await watched(...steps(20, 60));
  const gone = view();
  await hasAll(gone);
  gone.close();
  log.cut(saved);
  log.write({ ...runEvent(), resumedFrom: 20, time: '2026-01-02T00:00:00Z' }, ...steps(20, 20 + regrown));
  await hasAll(present);
  expect(present.told.filter((name) => name === 'reset')).toHaveLength(1);
  const back = view(gone.lastEventId);
  await hasAll(back);
  expect(back.told).toContain('reset');
  // From here on it is a log like any other.
  log.write(...steps(200, 201));
  await hasAll(present);
  expect(present.told.filter((name) => name === 'reset')).toHaveLength(1);
});

it('a viewer that had not read as far as the cut goes on without a word', async () => {
  const first = await watched(runEvent(), ...steps(0, 20));
  first.close();
  const saved = log.bytes;
  log.write(...steps(20, 60));
  log.cut(saved);
  log.write({ ...runEvent(), resumedFrom: 20 }, ...steps(20, 25));
  const again = view(first.lastEventId);
  await until(() => expect([...first.lines, ...again.lines]).toEqual(log.lines));
  expect(again.told).not.toContain('reset');
});

it('a run that is begun anew with --overwrite is told anew', async () => {
  const viewer = await watched(runEvent(), ...steps(0, 50));
  log.cut(0);
  log.write({ ...runEvent({ seed: 1 }), time: '2026-01-02T00:00:00Z' }, ...steps(0, 80));
  await hasAll(viewer);
  expect(viewer.told).toContain('reset');
});

it.each([
  '',
  'x',
  '5',
  '-1-0000000000000000',
  '99999999999999-0123456789abcdef',
  '10-0123456789abcdef',
  '../../etc/passwd',
])('a Last-Event-ID that is none (%j) gets the whole log', async (id) => {
  log.write(runEvent(), ...steps(0, 20));
  follow();
  await hasAll(view(id));
});

it('the machine is read only while somebody looks', async () => {
  log.write(runEvent());
  const read = vi.spyOn(process.memoryUsage, 'rss');
  server.follow({ run: log.run, machine: { gpu: undefined } });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(read).not.toHaveBeenCalled();
  const viewer = view();
  await until(() => expect(viewer.data.machine).toEqual({ processMemory: expect.any(Number) }));
  viewer.close();
  await until(async () => {
    const calls = read.mock.calls.length;
    await new Promise((resolve) => setTimeout(resolve, 2500));
    expect(read.mock.calls.length).toBe(calls);
  });
  read.mockRestore();
});

it('many viewers, some of which come and go', async () => {
  log.write(runEvent(), ...steps(0, 200));
  follow();
  const all = Array.from({ length: 60 }, () => view());
  for (let round = 0; round < 10; round++) {
    log.write(...steps(200 + round * 5, 205 + round * 5));
    all[round]!.close();
    await new Promise((resolve) => setTimeout(resolve, 30));
  }
  for (const viewer of all.slice(10)) await hasAll(viewer);
});

it('beyond two hundred viewers there is no room, and room again when one leaves', async () => {
  log.write(runEvent());
  follow();
  const all = Array.from({ length: 200 }, () => view());
  for (const viewer of all) await hasAll(viewer);
  const late = view();
  await until(() => expect(late.status).toBe(503));
  all[0]!.close();
  await until(async () => {
    const again = view();
    await until(() => expect(again.status).toBeDefined());
    expect(again.status).toBe(200);
  });
});

it('a viewer that takes nothing costs little memory, and keeps nobody else waiting', async () => {
  log.write(runEvent(), ...steps(0, 60_000));
  follow();
  global.gc?.();
  const before = process.memoryUsage().arrayBuffers + process.memoryUsage().external;
  const sleepers = Array.from({ length: 20 }, () => {
    const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
    socket.pause();
    socket.write('GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n');
    return socket;
  });
  await hasAll(view());
  // A message of 64 KiB each, and the same again in what is being written.
  const grown = process.memoryUsage().arrayBuffers + process.memoryUsage().external - before;
  expect(grown).toBeLessThan(20 * 4 * 64 * 1024 + 16 * 2 ** 20);
  for (const socket of sleepers) socket.destroy();
});

it('a viewer that takes nothing for long is let go; one that is slow is not', () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  log.write(runEvent(), ...steps(0, 5000));
  const stream = new EventStream();
  stream.follow(logTailOf(log.run), () => ({}));
  const viewer = () => Object.assign(new EventEmitter(), { write: vi.fn(() => false), destroy: vi.fn(), end: vi.fn() });
  const [asleep, slow] = [viewer(), viewer()];
  for (const one of [asleep, slow]) stream.add(one as unknown as ServerResponse, undefined);
  for (let second = 0; second < 40; second += 10) {
    vi.advanceTimersByTime(10_000);
    slow.emit('drain');
  }
  expect(asleep.destroy).toHaveBeenCalled();
  expect(slow.destroy).not.toHaveBeenCalled();
  expect(slow.write.mock.calls.length).toBeGreaterThan(asleep.write.mock.calls.length);
  // One message each, not the log.
  expect(asleep.write.mock.calls.length).toBeLessThan(6);
  stream.close();
});
