// Ends one of two ranks inside a save, again and again: every checkpoint that is left whole is that of a job left alone.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { listCheckpoints, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { Workplace } from '../support/cli.ts';
import { freePort, Job, rankData, sharedSteps } from '../support/ranks.ts';
import { rounds, seed } from '../support/rounds.ts';

const hook = fileURLToPath(new URL('../support/kill-in-save.mjs', import.meta.url));
const [steps, saveEvery] = [8, 2];

it('a rank that ends inside a save leaves nothing that passes for a checkpoint', async () => {
  using place = new Workplace();
  const random = new Random(seed);
  const kind = process.env.GPT2_REQUIRE_CUDA ? 'cuda' : 'cpu';
  rankData(place);
  const args = [...sharedSteps, '--steps', `${steps}`, '--save-every', `${saveEvery}`, '--device', kind];
  const start = async (out: string, environment: (rank: number) => Record<string, string>) => {
    // The hook replaces a function of the program. It comes after the program's loader.
    const job = new Job(place, [...moduleLoader, '--import', hook, moduleOf('cli.ts')]);
    const port = await freePort();
    for (const rank of [0, 1])
      job.startRank(rank, 2, port, [...args, '--val-every', '0', '--out', out], environment(rank));
    return job;
  };
  const checkpoints = (out: string) => {
    const folder = checkpointsFolder(place.path(out));
    return (existsSync(folder) ? listCheckpoints(folder) : []).map((path) => {
      const { files } = verifyCheckpoint(path).manifest;
      return { step: basename(path), hashes: files.map(({ sha256 }) => sha256).join() };
    });
  };
  const hooked = { HOOKED: moduleOf('model/sharded-parameters.ts') };
  const alone = await start('alone', () => hooked);
  const codes = await alone.ends();
  if (codes.some((code) => code !== 0)) throw new Error(alone.said(0));
  const gathers = Number(/gathered (\d+) buckets/.exec(alone.said(1))?.[1]);
  const right = new Map(checkpoints('alone').map(({ step, hashes }) => [step, hashes]));

  /** `whole`: complete checkpoints, over all jobs; `longestSeconds`: from a rank's end to the other's, at most. */
  const report = { whole: 0, longestSeconds: 0 };
  for (let kills = 0; kills < 4 * rounds; kills++) {
    const out = `killed-${kills}`;
    const victim = random.integers(1, 2)[0]!;
    const at = 1 + random.integers(1, gathers)[0]!;
    const after = random.integers(1, 40)[0]! - 10;
    const kill = { ...hooked, KILL_AT: `${at}`, KILL_AFTER: `${after}` };
    const job = await start(out, (rank) => (rank === victim ? kill : hooked));
    const ended = job.processes.map((process) => once(process, 'exit').then(() => performance.now()));
    const [code, other] = [(await job.ends())[victim], (await job.ends())[1 - victim]];
    expect([code, other], `bucket ${at}: ${job.said(victim)}`).toEqual(['SIGKILL', 1]);
    const times = await Promise.all(ended);
    report.longestSeconds = Math.max(report.longestSeconds, (times[1 - victim]! - times[victim]!) / 1000);
    for (const { step, hashes } of checkpoints(out)) {
      report.whole++;
      expect(hashes, `${out}, ${step}`).toBe(right.get(step));
    }
  }
  console.log(report);
});
