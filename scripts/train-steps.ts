// Trains in a process of its own until enough steps are logged, then ends it before it would save.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout } from 'node:timers/promises';
import { packageRoot } from '../src/package-root.ts';
import { logPath } from '../src/runs/paths.ts';
import { readRun } from '../src/runs/reader.ts';

/** A run that hangs is ended after this many milliseconds. */
const longestRun = 600_000;

interface Settings {
  /** GPUs that the run sees; default: all. */
  readonly gpus?: readonly number[];
  readonly onLine?: (line: string) => void;
}

/** The milliseconds of a run's first `count` steps. @throws Error with the run's output if it ends before */
export async function trainSteps(
  options: readonly string[],
  count: number,
  { gpus, onLine = () => {} }: Settings = {},
): Promise<number[]> {
  const out = mkdtempSync(join(tmpdir(), 'gpt2-steps-'));
  const quiet = ['--val-every', '0', '--sample-every', '0', '--steps', String(100 * count), '--out', out];
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli.ts', 'train', ...options, ...quiet], {
    cwd: packageRoot,
    // A group of its own, so that its ranks end with it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: gpus ? { ...process.env, CUDA_VISIBLE_DEVICES: gpus.join() } : process.env,
  });
  const lines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    createInterface(stream).on('line', (line) => {
      lines.push(line);
      onLine(line);
    });
  }
  const ended = once(child, 'close');
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  const kill = () => {
    if (!hasEnded()) process.kill(-child.pid!, 'SIGKILL');
  };
  const stop = () => process.exit(1);
  process.once('exit', kill).once('SIGINT', stop).once('SIGTERM', stop);
  try {
    const end = performance.now() + longestRun;
    for (;;) {
      await setTimeout(100);
      if (hasEnded() || performance.now() > end) throw new Error(lines.join('\n'));
      if (!existsSync(logPath(out)) || statSync(logPath(out)).size === 0) continue;
      const times = readRun(out).events.flatMap((event) => (event.event === 'train' ? [event.ms] : []));
      if (times.length >= count) return times.slice(0, count);
    }
  } finally {
    process.off('exit', kill).off('SIGINT', stop).off('SIGTERM', stop);
    kill();
    await ended;
    rmSync(out, { recursive: true, force: true });
  }
}
