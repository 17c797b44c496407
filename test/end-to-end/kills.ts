// Kills a run again and again with SIGKILL, at random moments of training, saving, pruning and logging, and resumes it. What
// came of it is compared with the same run left alone. For kills.test.ts.
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { checkpointsFolder, logPath } from '../../src/runs/paths.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';

export interface KillReport {
  readonly kills: number;
  /** Of the killed processes, those that had done no step yet. */
  readonly beforeFirstStep: number;
  readonly steps: number;
  /** Checkpoints that were found but could not be used, over all kills. */
  readonly damaged: number;
}

/** @throws Error saying what was lost, repeated or different */
export async function killRuns({ kills, seed }: { kills: number; seed: number }): Promise<KillReport> {
  using place = new Workplace();
  const random = new Random(seed);
  // A small vocabulary makes small checkpoints: the disk is not what is tested.
  const data = place.data({ train: 9000, vocabulary: 100 });
  // More steps than the kills leave time for; the last start does what is left.
  const steps = 300 + 150 * kills;
  const args = (out: string) => [
    ...['train', '--data', data, '--out', out, ...tinyModel, '--batch', '1', '--seq', '32', '--threads', '1'],
    ...['--steps', String(steps), '--lr', '1e-3', '--val-every', '7', '--val-steps', '2', '--sample-every', '0'],
    ...['--save-every', '2', '--keep', '3', '--keep-every', '50'],
  ];
  const straight = place.run(args('straight'));
  if (straight.code !== 0) throw new Error(straight.stderr);

  const out = place.path('killed');
  let [done, beforeFirstStep, damaged] = [0, 0, 0];
  while (done < kills) {
    const before = existsSync(logPath(out)) ? readFileSync(logPath(out)).length : 0;
    const child = place.start([...args(out), ...(existsSync(logPath(out)) ? ['--resume'] : [])]);
    child.stdout.resume();
    let errors = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    const ended = once(child, 'exit');
    // About half a second goes by before the first step.
    await setTimeout(400 + random.uniform() * 600);
    child.kill('SIGKILL');
    const [code] = await ended;
    if (code === 0) throw new Error(`the run was done after ${done} kills: ${steps} steps are too few`);
    if (code !== null) throw new Error(`a start after ${done} kills ended with ${code}: ${errors}`);
    done++;
    if (existsSync(logPath(out)) && readFileSync(logPath(out)).length <= before) beforeFirstStep++;
    const found = newestValidCheckpoint(checkpointsFolder(out));
    damaged += found.damaged.length;
  }
  const last = place.run([...args(out), ...(existsSync(logPath(out)) ? ['--resume'] : [])]);
  if (last.code !== 0) throw new Error(last.stderr);
  compare(figuresOf(place.path('straight')), figuresOf(out));
  return { kills, beforeFirstStep, steps, damaged };
}

function compare(wanted: readonly string[], found: readonly string[]): void {
  const at = wanted.findIndex((line, index) => line !== found[index]);
  if (at >= 0) throw new Error(`line ${at + 1} of the log is ${found[at]}, left alone it is ${wanted[at]}`);
  if (found.length > wanted.length) throw new Error(`${found.length - wanted.length} lines of the log are too many`);
}
