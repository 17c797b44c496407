// Breaks downloads at random bytes while every write to the disk is late by up to 30 ms. For download.test.ts.
import { createHash } from 'node:crypto';
import fs, { existsSync, readFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { Gpt2Error } from '../../src/base/errors.ts';
import { download } from '../../src/data/datasets/download.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { Workplace } from '../support/cli.ts';
import { FileServer } from './file-server.ts';

export interface BreakReport {
  readonly breaks: number;
  /** Calls of `download`, each of which tries six times. */
  readonly downloads: number;
  readonly bytes: number;
  /** Sent by the server beyond the file's bytes. */
  readonly bytesTwice: number;
  readonly hash: string;
  readonly expected: string;
}

/** Downloads a file over so many broken connections. */
export async function breakDownloads({ breaks, seed }: { breaks: number; seed: number }): Promise<BreakReport> {
  using place = new Workplace();
  const random = new Random(seed);
  const mostBetween = 400_000;
  const bytes = mostBetween * (breaks + 1);
  const content = Buffer.from(random.integers(bytes / 4, 2 ** 31).buffer);
  const server = new FileServer();
  const url = `${await server.start()}/file.bin`;
  server.files.set('/file.bin', content);
  const restore = await delayWrites(() => random.uniform() * 30);
  const path = place.path('file.bin');
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
    for (next(); !existsSync(path); downloads++) {
      await download(url, path, { notice, pauseMilliseconds: 1 }).catch((error: unknown) => {
        if (!(error instanceof Gpt2Error && error.message.includes('run this again to resume'))) throw error;
        done++;
        next();
      });
    }
  } finally {
    restore();
    await server.close();
  }
  const hash = (data: Buffer) => createHash('sha256').update(data).digest('hex');
  const bytesTwice = server.sent - content.length;
  return {
    ...{ breaks: done, downloads, bytes: content.length, bytesTwice },
    ...{ hash: hash(readFileSync(path)), expected: hash(content) },
  };
}

/** Makes every asynchronous write of this process late, by streams and by file handles; gives what ends that. */
async function delayWrites(milliseconds: () => number): Promise<() => void> {
  await using file = await open(new URL(import.meta.url));
  const handles = Object.getPrototypeOf(file) as { write: (...args: unknown[]) => Promise<unknown> };
  const streams = fs as unknown as Record<'write' | 'writev', (...args: unknown[]) => void>;
  const { write } = handles;
  const { write: streamWrite, writev } = streams;
  handles.write = async function (...args) {
    await setTimeout(milliseconds());
    return write.apply(this, args);
  };
  streams.write = (...args) => void setTimeout(milliseconds()).then(() => streamWrite(...args));
  streams.writev = (...args) => void setTimeout(milliseconds()).then(() => writev(...args));
  return () => {
    handles.write = write;
    Object.assign(streams, { write: streamWrite, writev });
  };
}
