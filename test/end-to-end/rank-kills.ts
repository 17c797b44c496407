// Ends one of two ranks inside a save, again and again, and compares every checkpoint that is left whole with those of a job
// left alone. For rank-kills.test.ts.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { listCheckpoints, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { loader, sourceCommand, Workplace } from '../support/cli.ts';
import { freePort, Job, rankData, sharedSteps } from '../support/ranks.ts';

export interface RankKillReport {
  readonly kills: number;
  /** Complete checkpoints, over all jobs. */
  readonly whole: number;
  /** Those that differ from the uninterrupted job's at that step. */
  readonly different: number;
  /** How the other rank ended, "1" or "SIGKILL", and how often. */
  readonly ends: Readonly<Record<string, number>>;
  /** From a rank's end to the other's, at most. */
  readonly longestSeconds: number;
}

const hook = fileURLToPath(new URL('../support/kill-in-save.mjs', import.meta.url));
const [steps, saveEvery] = [8, 2];

export async function killRanks(options: { kills: number; seed: number; kind: LibraryKind }): Promise<RankKillReport> {
  using place = new Workplace();
  const random = new Random(options.seed);
  rankData(place);
  const args = [...sharedSteps, '--steps', `${steps}`, '--save-every', `${saveEvery}`, '--device', options.kind];
  const start = async (out: string, environment: (rank: number) => Record<string, string>) => {
    const job = new Job(place, sourceCommand);
    const MASTER_PORT = await freePort();
    for (const rank of [0, 1]) {
      job.start([...args, '--val-every', '0', '--out', out], {
        ...{ RANK: `${rank}`, WORLD_SIZE: '2', LOCAL_RANK: `${rank}`, LOCAL_WORLD_SIZE: '2' },
        ...{ MASTER_ADDR: '127.0.0.1', MASTER_PORT, ...environment(rank) },
      });
    }
    return job;
  };
  const checkpoints = (out: string) => {
    const folder = checkpointsFolder(place.path(out));
    return (existsSync(folder) ? listCheckpoints(folder) : []).map((path) => {
      const { files } = verifyCheckpoint(path).manifest;
      return { step: basename(path), hashes: files.map(({ sha256 }) => sha256).join() };
    });
  };
  // The hook replaces a function of the sources. It comes after tsx, as the program itself does.
  const NODE_OPTIONS = `--import ${loader} --import ${hook}`;
  const alone = await start('alone', () => ({ NODE_OPTIONS }));
  const codes = await alone.ends();
  if (codes.some((code) => code !== 0)) throw new Error(alone.said(0));
  const gathers = Number(/gathered (\d+) buckets/.exec(alone.said(1))?.[1]);
  const right = new Map(checkpoints('alone').map(({ step, hashes }) => [step, hashes]));

  const report = { kills: 0, whole: 0, different: 0, ends: {} as Record<string, number>, longestSeconds: 0 };
  for (; report.kills < options.kills; report.kills++) {
    const out = `killed-${report.kills}`;
    const victim = random.integers(1, 2)[0]!;
    const at = 1 + random.integers(1, gathers)[0]!;
    const after = random.integers(1, 40)[0]! - 10;
    const kill = { NODE_OPTIONS, KILL_AT: `${at}`, KILL_AFTER: `${after}` };
    const job = await start(out, (rank): Record<string, string> => (rank === victim ? kill : {}));
    const ended = job.processes.map((process) => once(process, 'exit').then(() => performance.now()));
    const [code, other] = [(await job.ends())[victim], (await job.ends())[1 - victim]];
    if (code !== 'SIGKILL')
      throw new Error(`rank ${victim} ended with ${code} before bucket ${at}: ${job.said(victim)}`);
    report.ends[`${other}`] = (report.ends[`${other}`] ?? 0) + 1;
    const times = await Promise.all(ended);
    report.longestSeconds = Math.max(report.longestSeconds, (times[1 - victim]! - times[victim]!) / 1000);
    for (const { step, hashes } of checkpoints(out)) {
      report.whole++;
      if (hashes !== right.get(step)) report.different++;
    }
  }
  return report;
}
