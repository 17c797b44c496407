// Failures of ranks, and requests from outside: one that is killed, hangs or is not like the others, Ctrl-C, other
// launchers. On the CPU; over NCCL in test/gpu/ranks.test.ts.
import { once } from 'node:events';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { orElse } from '../../src/base/errors.ts';
import { checkpointsFolder, configPath, logPath } from '../../src/runs/paths.ts';
import { readRun } from '../../src/runs/reader.ts';
import { resolveCheckpoint, verifyCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { Workplace, withCode, workplace } from '../support/cli.ts';
import { freePort, Job, rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';
import { until } from '../support/until.ts';

const place = workplace();
rankData(place);

/** In the order in which they were started. Never 0: a signal to 0 goes to the whole process group. */
const childrenOf = (pid: number): number[] =>
  (readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').match(/\d+/g) ?? []).map(Number);

const isTraining = (out: string) =>
  until(() => expect(readFileSync(logPath(place.path(out)), 'utf8').split('\n').length).toBeGreaterThan(4));

it('a step that is not finite ends all ranks, says where it began and is saved as it was before', () => {
  const args = [...tinyRanks, ...sharedSteps, ...'--lr 1e30 --steps 9 --val-every 0 --out bad --gpus 2'.split(' ')];
  const { stderr } = withCode(1, place.run(['train', ...args]));
  expect(stderr).toMatch(
    /^rank [01] on .*: step (\d) is not finite .*; rank [01] on .*: gpt2_\w+ wrote (NaN|-?Infinity) to .*; saved the state before the step; continue with --out bad/,
  );
  const { step } = resolveCheckpoint(place.path('bad')).manifest;
  expect(stderr).toContain(`step ${step} is not finite`);
});

describe('a job', () => {
  /** Ranks in torchrun's words. */
  async function job(args: readonly string[][], environment: Record<string, string>[] = []): Promise<Job> {
    const started = new Job(place);
    const port = await freePort();
    for (const [rank, given] of args.entries()) started.startRank(rank, args.length, port, given, environment[rank]);
    return started;
  }
  const endless = [...sharedSteps, ...'--steps 1000000 --val-every 0 --save-every 0'.split(' ')];

  it('whose rank is killed ends with its name', async () => {
    const three = await job([1, 2, 3].map(() => [...endless, '--out', 'killed']));
    await isTraining('killed');
    three.processes[2]!.kill('SIGKILL');
    expect(await three.ends()).toEqual([1, 1, 'SIGKILL']);
    for (const rank of [0, 1]) expect(three.said(rank)).toContain(`rank 2 on ${hostname()} is gone: its connection`);
  });

  it('whose rank is killed while the last step is saved has it saved', async () => {
    // A checkpoint of 230 MB.
    const large = '--layers 6 --channels 512 --heads 8 --stop-after 2 --out saving'.split(' ');
    const two = await job([1, 2].map(() => [...endless, ...large]));
    const folder = checkpointsFolder(place.path('saving'));
    while (!existsSync(folder) || !readdirSync(folder).some((name) => name.endsWith('.tmp'))) await setTimeout(1);
    two.processes[1]!.kill('SIGKILL');
    expect(await two.ends()).toEqual([1, 'SIGKILL']);
    expect(two.said(0)).toContain(`rank 1 on ${hostname()} is gone`);
    expect(readdirSync(folder)).toEqual(['step-00000002']);
    verifyCheckpoint(resolveCheckpoint(place.path('saving')).path);
    expect(two.said(0)).toContain('saved ');
  });

  it('whose rank hangs ends with its name', async () => {
    const two = await job([1, 2].map(() => [...endless, '--out', 'hung']));
    await isTraining('hung');
    two.processes[1]!.kill('SIGSTOP');
    const begun = performance.now();
    await once(two.processes[0]!, 'close');
    expect(performance.now() - begun).toBeLessThan(60_000);
    expect(two.said(0)).toContain(`rank 1 on ${hostname()} has not answered for 6 s`);
  });

  it.each([
    ['are told different things', ['--lr', '2e-3'], 'configuration.learningRate is 0.002, at rank 0 0.001'],
    ['read different data', ['--data', 'other'], 'training.1.tokens is 1501, at rank 0 1500'],
  ])('whose ranks %s says what, in every rank', async (_, more, difference) => {
    place.data({ train: [2000, 1501, 1000], val: 1300, vocabulary: 100, name: 'other' });
    const args = [...endless, '--out', 'different'];
    const two = await job([args, [...args, ...more]]);
    expect(await two.ends()).toEqual([1, 1]);
    const text = `rank 1 on ${hostname()} disagrees: ${difference}\n`;
    for (const rank of [0, 1]) expect(two.said(rank)).toBe(text);
    expect(existsSync(place.path('different'))).toBe(false);
  });

  it('that is refused before it begins says so in rank 0 alone', async () => {
    const two = await job([1, 2].map(() => [...endless, '--out', 'refused', '--data', 'nothing']));
    expect(await two.ends()).toEqual([1, 1]);
    expect(two.said(0)).toMatch(/^rank 0 on .*: nothing does not exist; .*\n$/);
    expect(two.said(1)).toBe('');
  });

  it("whose rank 1 has the checkpoint but not rank 0's log goes on, --skip-spikes and all", async () => {
    using other = new Workplace();
    const skipping = [...endless, '--skip-spikes', '6', '--out', 'skipping'];
    const first = await job([1, 2].map(() => [...skipping, '--stop-after', '2']));
    expect(await first.ends(), first.said(0)).toEqual([0, 0]);
    cpSync(place.folder, other.folder, { recursive: true });
    rmSync(logPath(other.path('skipping')));
    const port = await freePort();
    const two = [place, other].map((folder, rank) => {
      const one = new Job(folder);
      one.startRank(rank, 2, port, ['--out', 'skipping', '--resume', '--stop-after', '4']);
      return one;
    });
    expect(await Promise.all(two.map((one) => one.ends())), two[1]!.said(0)).toEqual([[0], [0]]);
    expect(readRun(place.path('skipping')).series.train.length).toBe(4);
  });

  it('stops saved, all ranks after the same step, when one is asked to', async () => {
    const args = [...endless, '--out', 'asked'];
    const two = await job([args, args]);
    await isTraining('asked');
    two.processes[1]!.kill('SIGTERM');
    expect(await two.ends()).toEqual([130, 143]);
    const { step } = resolveCheckpoint(place.path('asked')).manifest;
    expect(two.said(0)).toContain(`stopped after ${step} of 1000000 steps and saved`);
  });

  it.each([
    [
      'srun',
      (rank: number) => ({
        ...{ SLURM_PROCID: String(rank), SLURM_NTASKS: '2', SLURM_STEP_NUM_TASKS: '2', SLURM_LOCALID: String(rank) },
        ...{ SLURM_JOB_ID: String(process.pid), SLURM_STEP_ID: '0', SLURM_STEP_NODELIST: '127.0.0.1' },
      }),
    ],
    [
      'mpirun',
      (rank: number) => ({
        ...{ OMPI_COMM_WORLD_RANK: String(rank), OMPI_COMM_WORLD_SIZE: '2', OMPI_COMM_WORLD_LOCAL_RANK: String(rank) },
        ...{ OMPI_COMM_WORLD_LOCAL_SIZE: '2', PMIX_NAMESPACE: `test-${process.pid}` },
      }),
    ],
  ])('started by %s finds itself', async (name, environment) => {
    const two = new Job(place);
    const args = [...sharedSteps, ...`--steps 5 --val-every 0 --out by-${name}`.split(' ')];
    for (const rank of [0, 1]) two.start(args, environment(rank));
    expect(await two.ends(), two.said(0)).toEqual([0, 0]);
    expect(two.said(0)).toContain('2 ranks on this machine');
    expect(two.said(1)).toBe('');
    expect(readRun(place.path(`by-${name}`)).series.train.length).toBe(5);
  });
});

describe('train --gpus', () => {
  const endless = [...tinyRanks, ...sharedSteps, ...'--steps 1000000 --val-every 0'.split(' ')];

  it.each([
    ['SIGINT', 130, ' (send it again to stop at once, unsaved)'],
    ['SIGUSR1', 138, ', on SIGUSR1'],
  ] as const)('passes %s on, and all ranks stop, saved', async (signal, exitCode, hint) => {
    const out = `stopped-by-${signal}`;
    const { child, said, ended } = place.begin(['train', ...endless, '--out', out, '--gpus', '2']);
    await isTraining(out);
    child.kill(signal);
    expect(await ended, said.stderr).toMatchObject({ code: exitCode });
    const [, stopping, stopped] = said.stderr.split('\n');
    expect(stopping).toBe(`stopping${hint}`);
    expect(stopped).toMatch(/^stopped after \d+ of 1000000 steps and saved; continue with/);
  });

  describe.skipIf(!existsSync('/proc/self/task'))('says which rank was ended from outside (needs Linux)', () => {
    /** Runs two ranks, does `harm` to them while they train, and gives what the launcher says in the end. */
    async function harmed(out: string, harm: (ranks: number[]) => void): Promise<string> {
      const { child, said, ended } = place.begin(['train', ...endless, '--out', out, '--gpus', '2']);
      await isTraining(out);
      const ranks = childrenOf(child.pid!);
      harm(ranks);
      expect(await ended).toMatchObject({ code: 1 });
      for (const rank of ranks) expect(() => process.kill(rank, 0)).toThrow('ESRCH');
      return said.stderr;
    }

    it.each([
      ['cannot', ['SIGKILL'], 0],
      ['hangs and is ended over it', ['SIGSTOP', 'SIGKILL'], 1],
    ])('where rank 0 %s', async (how, signals, killed) => {
      const out = `root-${how.split(' ')[0]}`;
      const said = await harmed(out, (ranks) => {
        for (const [rank, signal] of signals.entries()) process.kill(ranks[rank]!, signal);
      });
      expect(said).toBe(`rank ${killed} was killed by SIGKILL\n`);
    });
  });

  const tiny = `train ${tinyRanks.join(' ')}`;
  it.each<[line: string, said: string, env?: Record<string, string>]>([
    [
      `${tiny} --gpus 2 --batch 2 --total-batch 96`,
      '--total-batch 96 is not a multiple of --batch 2 x --seq 16 x --gpus 2 = 64 tokens; take one that is\n',
    ],
    [
      `${tiny} --out twelve --resume`,
      '--total-batch 96 is not a multiple of --batch 4 x --seq 16 x --gpus 12 = 768 tokens; take one that is\n',
    ],
    [`${tiny} --gpus 2 --batch auto`, '--batch auto is for one GPU; give --batch a number with --gpus\n'],
    [
      `${tiny} --gpus 2`,
      'the environment variable MASTER_PORT must be a whole number from 1 to 65535, not "99999"\n',
      { MASTER_PORT: '99999' },
    ],
    ['eval --model none --gpus 2', '--gpus 2 needs GPUs, and none can be used here', { CUDA_VISIBLE_DEVICES: '' }],
  ])('refuses before any process is started: %s', async (line, said, env) => {
    place.file(configPath('twelve'), JSON.stringify({ ranks: 12, device: 'cpu', totalBatch: 96 }));
    const { stderr } = withCode(2, await place.here(line, env));
    expect(stderr.startsWith(said), stderr).toBe(true);
    if (said.endsWith('\n')) expect(stderr).toBe(said);
  });
});

it.skipIf(!existsSync('/proc/self/task'))(
  'eval --gpus leaves no rank behind when it is ended (needs Linux)',
  async () => {
    const trained = [...tinyRanks, ...sharedSteps, ...'--steps 5 --val-every 0 --out evaluated'.split(' ')];
    place.ok(['train', ...trained]);
    // Half a minute's worth.
    place.data({ val: 2_000_000, vocabulary: 100, name: 'long' });
    const files = '--model evaluated --data long --batch 2 --device cpu --threads 1'.split(' ');
    const { child, said } = place.begin(['eval', ...files, '--gpus', '2']);
    while (!said.stderr.includes('on 2 x cpu')) await setTimeout(20);
    const ranks = childrenOf(child.pid!);
    onTestFinished(() => {
      for (const rank of ranks.filter(isAlive)) process.kill(rank, 'SIGKILL');
    });
    child.kill('SIGTERM');
    await once(child, 'exit');
    for (let tries = 0; tries < 600 && ranks.some(isAlive); tries++) await setTimeout(50);
    expect(ranks.filter(isAlive)).toEqual([]);
  },
);

/** One that has ended may still be waiting to be noticed. */
const isAlive = (pid: number) => orElse(false, () => !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8')));
