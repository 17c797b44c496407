// Fails the disk when the log of a run is closed: reported in one sentence, or as a notice if the run ended with another error.
import { readdirSync } from 'node:fs';
import { expect, it, vi } from 'vitest';
import { Gpt2Error, train } from '../../src/index.ts';
import { Workplace } from '../support/cli.ts';
import { tinyRun } from '../support/tiny-run.ts';

const failing = vi.hoisted(() => ({ path: '' }));
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  return {
    ...fs,
    fsyncSync: (file: number) => {
      if (failing.path !== '' && fs.readlinkSync(`/proc/self/fd/${file}`) === failing.path) {
        throw new Error('EIO: i/o error, fsync');
      }
      fs.fsyncSync(file);
    },
  };
});

it.skipIf(process.platform !== 'linux')('a log that cannot be synced is told of (needs Linux)', async () => {
  using place = new Workplace();
  const data = place.data({ vocabulary: 100 });
  const run = (out: string, signal?: AbortSignal) => {
    failing.path = place.path(out, 'log.jsonl');
    const notices: string[] = [];
    const options = { ...tinyRun, data, steps: 2, out: place.path(out) };
    const ended = train(options, { signal, onNotice: (text) => notices.push(text) });
    return { ended, notices };
  };
  const trouble = (out: string) =>
    `${place.path(out, 'log.jsonl')} may lack its last lines: EIO: i/o error, fsync; check the disk`;
  await expect(run('done').ended).rejects.toThrow(new Gpt2Error(trouble('done')));

  const stopped = run('stopped', AbortSignal.abort(143));
  await expect(stopped.ended).rejects.toMatchObject({ name: 'StoppedError', exitCode: 143 });
  expect(stopped.notices).toContain(trouble('stopped'));
  expect(readdirSync(place.path('stopped', 'checkpoints'))).toHaveLength(1);
});
