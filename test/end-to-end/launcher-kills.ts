// Kills the launcher of two ranks with SIGKILL soon after its start and looks whether its ranks end too. For
// launcher-kills.test.ts. Linux only: processes are found in /proc.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { sourceCommand, type Workplace } from '../support/cli.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';

export interface LauncherKill {
  /** Ranks that had been started when the launcher was killed. */
  readonly ranks: number;
  /** Ranks still alive after the time they were given. */
  readonly orphans: number;
}

/**
 * Kills one launcher, and orphans at the end.
 * @param moment called after the start with the number of ranks found so far; returns when the launcher is to be killed
 * @param seconds that ranks are given to end
 */
export async function killLauncher(
  place: Workplace,
  moment: (ranksStarted: () => number) => Promise<void>,
  seconds: number,
): Promise<LauncherKill> {
  const token = randomUUID();
  if (!existsSync(place.path('data'))) rankData(place);
  const options = ['--steps', '1000000', '--val-every', '0', '--save-every', '0', '--out', token];
  const args = [...sourceCommand, 'train', ...tinyRanks, ...sharedSteps, ...options, '--gpus', '2'];
  const environment = { ...process.env, GPT2_JOB_TOKEN: token };
  const launcher = spawn(process.execPath, args, { cwd: place.folder, env: environment, stdio: 'ignore' });
  const ranks = () => ranksWith(token);
  const ended = once(launcher, 'exit');
  try {
    await moment(() => ranks().length);
    launcher.kill('SIGKILL');
    await ended;
    const started = ranks().length;
    const end = performance.now() + seconds * 1000;
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

function wordsOf(pid: number, file: 'environ' | 'cmdline'): string[] {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1').split('\0');
  } catch {
    // It has ended, or is another user's.
    return [];
  }
}
