// A download resumes where it broke off, is checked, and leaves no partial file under its name.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { download } from '../../src/data/datasets/download.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { listening } from '../support/until.ts';
import { FileServer } from './file-server.ts';

const place = workplace('each');
let server: FileServer;
let url: string;
const content = Buffer.from(new Random(1).integers(300_000, 2 ** 31).buffer);
beforeEach(async () => {
  server = new FileServer();
  url = `${await server.start()}/corpus.bin`;
  server.files.set('/corpus.bin', content);
});
afterEach(() => server.close());

const notices: string[] = [];
const options = { pauseMilliseconds: 1, notice: (text: string) => notices.push(text) };
const path = () => place.path('folder', 'corpus.bin');
const fetched = (more: object = {}) => download(url, path(), { ...options, ...more });

it('comes whole, once', async () => {
  await fetched();
  expect(readFileSync(path()).equals(content)).toBe(true);
  expect(readdirSync(place.path('folder'))).toEqual(['corpus.bin']);
  const before = server.requests.length;
  await fetched();
  expect(server.requests.length).toBe(before);
});

it('goes on where it broke off, again and again', async () => {
  server.breakAfter = 400_000;
  // The break comes when all that was sent has been written, or never.
  let told = (_done: number) => {};
  server.beforeBreak = (sent) =>
    new Promise<void>((resolve) => {
      told = (done) => {
        if (done >= sent) resolve();
      };
    });
  await fetched({ onProgress: (done: number) => told(done) });
  expect(readFileSync(path()).equals(content)).toBe(true);
  const ranges = server.requests
    .filter(({ path, method }) => path.startsWith('/store') && method === 'GET')
    .map(({ range }) => range);
  expect(ranges).toEqual([undefined, 'bytes=400000-', 'bytes=800000-']);
  expect(server.sent).toBe(content.length);
});

it('stops when it outgrows its size', async () => {
  const large = Buffer.alloc(64 << 20, 1);
  server.files.set('/corpus.bin', large);
  server.size = 1000;
  const error = await fetched().catch((error: Error) => error);
  const [, bytes] = /has (\d+) bytes, not 1000; it was deleted: run this again$/.exec(String(error)) ?? [];
  expect(Number(bytes), String(error)).toBeLessThan(large.length / 2);
  expect(readdirSync(place.path('folder'))).toEqual([]);
});

it('keeps what has come when it gives up, and the next run goes on from there', async () => {
  server.breakAfter = 100_000;
  await expect(fetched()).rejects.toThrow(/corpus\.bin\.part keeps the received part: run this again to resume/);
  expect(existsSync(path())).toBe(false);
  server.breakAfter = Number.POSITIVE_INFINITY;
  server.requests.length = 0;
  await fetched();
  expect(readFileSync(path()).equals(content)).toBe(true);
  expect(server.requests.at(-1)!.range).toMatch(/^bytes=[1-9]\d{4,}-$/);
});

const other = Buffer.from(content).reverse();
it.each<[does: string, ranges: FileServer['ranges'], file?: Buffer]>([
  ['has another file', 'right', other],
  ['has another file, and gives its rest', 'blind', other],
  ['refuses ranges', 'refused'],
  ['gives no ranges', 'ignored'],
  ['gives another range', 'shifted'],
])('a server that, when the rest is asked for, %s', async (_, ranges, file = content) => {
  server.breakAfter = 100_000;
  await expect(fetched()).rejects.toThrow(/keeps the received part/);
  server.breakAfter = Number.POSITIVE_INFINITY;
  server.ranges = ranges;
  server.files.set('/corpus.bin', file);
  await fetched();
  expect(readFileSync(path()).equals(file)).toBe(true);
});

it('goes on by the time of the last change where there is no ETag, and not by a weak one', async () => {
  for (const [validator, goesOn] of [
    ['last-modified', true],
    ['weak', false],
  ] as const) {
    server.validator = validator;
    server.breakAfter = 400_000;
    const to = place.path(validator);
    if (goesOn) await download(url, to, options);
    else await expect(download(url, to, options)).rejects.toThrow(/cannot download/);
    server.breakAfter = Number.POSITIVE_INFINITY;
    server.files.set('/corpus.bin', other);
    await download(url, to, options);
    expect(readFileSync(to).equals(goesOn ? content : other)).toBe(true);
  }
});

it('refuses what has another checksum, and removes it', async () => {
  server.sha256 = '0'.repeat(64);
  await expect(fetched()).rejects.toThrow(/has sha256 [0-9a-f]{64}, not 0{64}; it was deleted: run this again$/);
  expect(readdirSync(place.path('folder'))).toEqual([]);
});

it('says what it has when the server gives no checksum', async () => {
  server.sha256 = '';
  await fetched();
  expect(notices.at(-1)).toMatch(/gives no checksum; the sha256 of the download is [0-9a-f]{64}$/);
});

it.each([404, 403, 503])('a server that says %s', async (status) => {
  server.refusal = status;
  await expect(fetched()).rejects.toThrow(`the server answered ${status}; give your own files with --from`);
  // Only what may pass is tried again.
  expect(server.requests.filter(({ method }) => method === 'GET').length).toBe(status === 503 ? 6 : 1);
});

it('no server, and a folder that cannot be written', async () => {
  await expect(download('http://127.0.0.1:9/x', path(), options)).rejects.toThrow(
    /cannot download .*; give your own files with --from/,
  );
  await expect(download(url, join(place.file('file', ''), 'x'), options)).rejects.toThrow(/cannot write/);
});

it('a server that accepts and says nothing is asked once where it has a limit', async () => {
  let asked = 0;
  const silent = createServer(() => asked++);
  const url = `http://127.0.0.1:${await listening(silent)}/x`;
  await expect(download(url, path(), { ...options, connectMilliseconds: 100 })).rejects.toThrow(
    /cannot download .*: no data for 0\.1 s; give/,
  );
  expect(asked).toBe(1);
  silent.close();
});

it('broken at any byte, on a disk that writes late, it comes as it is', async () => {
  const breaks = 12 * rounds;
  const random = new Random(seed);
  const mostBetween = 400_000;
  const bytes = mostBetween * (breaks + 1);
  const content = Buffer.from(random.integers(bytes / 4, 2 ** 31).buffer);
  server.files.set('/corpus.bin', content);
  const restore = await delayWrites(() => random.uniform() * 30);
  let [done, downloads] = [0, 0];
  const next = () => {
    server.breakAfter = done < breaks ? Math.ceil(random.uniform() * mostBetween) : Number.POSITIVE_INFINITY;
  };
  const notice = (text: string) => {
    if (!text.endsWith('trying again')) return;
    done++;
    next();
  };
  try {
    for (next(); !existsSync(path()); downloads++) {
      await fetched({ notice }).catch((error: unknown) => {
        if (!(error instanceof Gpt2Error && error.message.includes('run this again to resume'))) throw error;
        done++;
        next();
      });
    }
  } finally {
    restore();
  }
  console.log({ downloads, bytesTwice: server.sent - content.length });
  expect(done).toBe(breaks);
  expect(readFileSync(path()).equals(content)).toBe(true);
});

/** Makes every write of this process by file handles late; gives what ends that. */
async function delayWrites(milliseconds: () => number): Promise<() => void> {
  await using file = await open(new URL(import.meta.url));
  const handles = Object.getPrototypeOf(file) as { write: (...args: unknown[]) => Promise<unknown> };
  const { write } = handles;
  handles.write = async function (...args) {
    await setTimeout(milliseconds());
    return write.apply(this, args);
  };
  return () => {
    handles.write = write;
  };
}
