// A launcher that is killed while its ranks are still being loaded leaves none behind. Linux only: processes are found in /proc.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { orElse } from '../../src/base/errors.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { command, Workplace } from '../support/cli.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { rounds, seed } from '../support/rounds.ts';

/** Kills a launcher so long after it has started its ranks; those that live after a minute are orphans. */
async function killLauncher(place: Workplace, milliseconds: number): Promise<{ ranks: number; orphans: number }> {
  const token = randomUUID();
  if (!existsSync(place.path('data'))) rankData(place);
  const options = ['--steps', '1000000', '--val-every', '0', '--save-every', '0', '--out', token];
  const args = [...command, 'train', ...tinyRanks, ...sharedSteps, ...options, '--gpus', '2'];
  const environment = { ...process.env, GPT2_JOB_TOKEN: token };
  const launcher = spawn(process.execPath, args, { cwd: place.folder, env: environment, stdio: 'ignore' });
  const ranks = () => ranksWith(token);
  const ended = once(launcher, 'exit');
  try {
    while (ranks().length < 2) await setTimeout(5);
    await setTimeout(milliseconds);
    launcher.kill('SIGKILL');
    await ended;
    const started = ranks().length;
    const end = performance.now() + 60_000;
    while (ranks().length > 0 && performance.now() < end) await setTimeout(100);
    return { ranks: started, orphans: ranks().length };
  } finally {
    launcher.kill('SIGKILL');
    for (const pid of ranks()) process.kill(pid, 'SIGKILL');
  }
}

/** Living ranks of the job with a token. */
const ranksWith = (token: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const environment = wordsOf(pid, 'environ');
      // Children of a rank inherit its environment.
      return (
        [`GPT2_JOB_TOKEN=${token}`, 'GPT2_LAUNCHED=1'].every((word) => environment.includes(word)) &&
        wordsOf(pid, 'cmdline').includes('train')
      );
    });

/** None of a process that has ended, or is another user's. */
const wordsOf = (pid: number, file: 'environ' | 'cmdline'): string[] =>
  orElse([], () => readFileSync(`/proc/${pid}/${file}`, 'latin1').split('\0'));

// Loading takes a second or so: in the first of these the channel closes before the rank listens, in the last perhaps after.
it.skipIf(!existsSync('/proc/self/environ'))(
  'ranks end with a launcher that is killed 0, 0.2 and 0.6 s after it has started them (needs Linux)',
  async () => {
    using place = new Workplace();
    const random = new Random(seed);
    const more = Array.from({ length: rounds - 1 }, () => random.uniform() * 2000);
    for (const milliseconds of [0, 200, 600, ...more]) {
      const kill = await killLauncher(place, milliseconds);
      expect(kill, `after ${milliseconds} ms`).toMatchObject({ ranks: 2, orphans: 0 });
    }
  },
);
