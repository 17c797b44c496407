// Runs of several ranks from the command line, on the CPU: the figures of one rank with accumulation, the same bits at every run,
// checkpoints that move between numbers of ranks, and what each says that dies, hangs or is not like the others.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { resolveCheckpoint } from '../../src/checkpoint/directory.ts';
import { logPath, rankLogPath } from '../../src/runs/paths.ts';
import { readRun, type Series } from '../../src/runs/reader.ts';
import { writeQuestions } from '../../src/shards/multiple-choice.ts';
import { command, Workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { randomQuestions } from '../support/questions.ts';

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
  // 62, 46 and 31 batches of 2 x 16 tokens.
  place.data({ train: [2000, 1500, 1000], val: 1300, vocabulary: 100 });
});
afterAll(() => place[Symbol.dispose]());

const tiny = '--data data --layers 2 --channels 32 --heads 2 --context 16 --seq 16 --device cpu --sample-every 0'.split(
  ' ',
);
/** Twelve sequences a step, which 1, 2 and 3 ranks can share. */
const shape = '--batch 2 --total-batch 192 --order sequence --lr 1e-3 --warmup 5 --weight-decay 0.1'.split(' ');
const long = [...shape, ...'--steps 40 --val-every 10'.split(' ')];

function run(args: readonly string[], env: Record<string, string> = {}) {
  const result = place.run(['train', ...tiny, ...args], env);
  expect(result.code, result.stderr).toBe(0);
  return result;
}
const series = (out: string) => readRun(place.path(out)).series;
const furthest = (a: Series, b: Series): number => {
  expect(a.map(([step]) => step)).toEqual(b.map(([step]) => step));
  return Math.max(...a.map(([, value], index) => Math.abs(value - b[index]![1])));
};

describe('figures', () => {
  // As many tokens as two ranks validate with: a batch is one of each rank.
  beforeAll(() => void run([...long, '--out', 'one', '--val-steps', '12', '--threads', '1']));

  it.each([
    [2, 1, 'again'],
    [2, 0, ''],
    [3, 1, ''],
    [3, 0, 'again'],
  ])('%i ranks, ZeRO %i: those of one with accumulation, and the same bits %s', (ranks, zero, again) => {
    const given = [...long, '--gpus', String(ranks), '--zero', String(zero), '--val-steps', String(12 / ranks)];
    const { stdout } = run([...given, '--out', `${ranks}-${zero}`]);
    expect(stdout).toContain(`${ranks} ranks on this machine`);
    const [alone, together] = [series('one'), series(`${ranks}-${zero}`)];
    expect(together.train.length).toBe(40);
    expect(furthest(alone.train, together.train)).toBeLessThan(1e-5);
    expect(furthest(alone.norm, together.norm)).toBeLessThan(1e-5);
    // Before the first update it is the same sum of the same numbers.
    expect(together.val[0]).toEqual(alone.val[0]);
    expect(furthest(alone.val, together.val)).toBeLessThan(1e-5);
    // The other ranks' own logs have the same losses.
    const own = readFileSync(rankLogPath(place.path(`${ranks}-${zero}`), ranks - 1), 'utf8');
    expect(own).toContain(`"loss":${together.train.at(-1)![1]}`);

    if (!again) return;
    run([...given, '--out', `${ranks}-${zero}-again`]);
    expect(figuresOf(place.path(`${ranks}-${zero}-again`))).toEqual(figuresOf(place.path(`${ranks}-${zero}`)));
    const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
    expect(files(`${ranks}-${zero}-again`)).toEqual(files(`${ranks}-${zero}`));
  });
});

it('a checkpoint moves from 2 ranks to 1 and to 3, and what comes is what one run gives', () => {
  run([...long, '--out', 'straight', '--val-every', '0', '--threads', '1']);
  run([...long, '--out', 'moved', '--val-every', '0', '--gpus', '2', '--stop-after', '13']);
  const { stdout } = run(['--out', 'moved', '--resume', '--gpus', '1', '--stop-after', '27']);
  expect(stdout).toContain("--gpus 1 in place of the run's 2");
  run(['--out', 'moved', '--resume', '--gpus', '3']);
  expect(furthest(series('straight').train, series('moved').train)).toBeLessThan(1e-5);
  expect(resolveCheckpoint(place.path('moved')).manifest.configuration).toMatchObject({ ranks: 3 });
});

it("in llm.c's order a run resumes bit for bit, ranks at other shards, and only with as many", () => {
  const given = '--batch 2 --total-batch 128 --steps 60 --lr 1e-3 --val-every 0 --gpus 2'.split(' ');
  run([...given, '--out', 'llmc']);
  run([...given, '--out', 'llmc-stopped', '--save-every', '37', '--stop-after', '37']);
  run(['--out', 'llmc-stopped', '--resume']);
  expect(figuresOf(place.path('llmc-stopped'))).toEqual(figuresOf(place.path('llmc')));
  const { code, stderr } = place.run(['train', '--out', 'llmc-stopped', '--resume', '--gpus', '1']);
  expect(code).toBe(1);
  expect(stderr).toContain(
    'with --gpus 1: it was trained with 2; only --order sequence can continue with another split',
  );
});

it('HellaSwag is asked by ranks in turn, with the figures of one', () => {
  writeQuestions(place.path('questions.bin'), randomQuestions(60, { vocabulary: 100, longest: 12 }));
  // Weights that stay what they were, so that the answers are to the same.
  const asked = '--batch 2 --total-batch 64 --order sequence --steps 2 --lr 0 --val-every 0 --hellaswag-every 2'.split(
    ' ',
  );
  const answers = [1, 2].map((ranks) => {
    run([...asked, '--hellaswag', 'questions.bin', '--gpus', String(ranks), '--out', `asked-${ranks}`]);
    return readRun(place.path(`asked-${ranks}`)).events.find(({ event }) => event === 'hellaswag');
  });
  expect(answers[0]).toMatchObject({ questions: 60 });
  expect(answers[1]).toEqual(answers[0]);
});

it('a step that is not finite ends all ranks, says where it began and is saved as it was before', () => {
  const args = [
    'train',
    ...tiny,
    ...shape,
    '--lr',
    '1e30',
    '--steps',
    '9',
    '--val-every',
    '0',
    '--out',
    'bad',
    '--gpus',
    '2',
  ];
  const { code, stderr } = place.run(args);
  expect(code).toBe(1);
  expect(stderr).toMatch(
    /^rank [01] on .*: step (\d) is not finite .*; rank [01] on .*: gpt2_\w+ wrote (NaN|-?Infinity) to .*; saved as it was before the step; go on with --out bad/,
  );
  const { step } = resolveCheckpoint(place.path('bad')).manifest;
  expect(stderr).toContain(`step ${step} is not finite`);
});

/** Ranks as another launcher starts them. */
class Job {
  readonly processes: ChildProcess[] = [];
  readonly #said: string[] = [];

  start(args: readonly string[], environment: Record<string, string>): void {
    const child = spawn(process.execPath, [...command, 'train', ...tiny, ...args], {
      cwd: place.folder,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', GPT2_SILENCE_SECONDS: '4', ...environment },
    });
    const index = this.processes.push(child) - 1;
    this.#said[index] = '';
    for (const stream of [child.stdout!, child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#said[index] += text;
      });
    }
  }

  said = (rank: number): string => this.#said[rank]!;

  /** Exit codes or signals, by rank. */
  async ends(): Promise<(number | string | null)[]> {
    return Promise.all(
      this.processes.map(async (child) => {
        if (child.exitCode === null && child.signalCode === null) await once(child, 'close');
        return child.exitCode ?? child.signalCode;
      }),
    );
  }

  kill(): void {
    for (const child of this.processes) child.kill('SIGKILL');
  }
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return String(port);
}

describe('a job', () => {
  const jobs: Job[] = [];
  afterEach(() => {
    for (const job of jobs.splice(0)) job.kill();
  });
  /** Ranks in torchrun's words. */
  async function job(args: readonly string[][], environment: Record<string, string>[] = []): Promise<Job> {
    const started = new Job();
    jobs.push(started);
    const MASTER_PORT = await freePort();
    for (const [rank, given] of args.entries()) {
      started.start(given, {
        ...{ RANK: String(rank), WORLD_SIZE: String(args.length), LOCAL_RANK: String(rank), MASTER_ADDR: '127.0.0.1' },
        ...{ MASTER_PORT, LOCAL_WORLD_SIZE: String(args.length), ...environment[rank] },
      });
    }
    return started;
  }
  const endless = [...shape, ...'--steps 1000000 --val-every 0 --save-every 0'.split(' ')];
  const isTraining = async (out: string) => {
    while (
      !existsSync(logPath(place.path(out))) ||
      readFileSync(logPath(place.path(out)), 'utf8').split('\n').length < 5
    )
      await setTimeout(20);
  };

  it('whose rank is killed ends with its name', async () => {
    const three = await job([1, 2, 3].map(() => [...endless, '--out', 'killed']));
    await isTraining('killed');
    three.processes[2]!.kill('SIGKILL');
    expect(await three.ends()).toEqual([1, 1, 'SIGKILL']);
    for (const rank of [0, 1]) expect(three.said(rank)).toContain(`rank 2 on ${hostname()} is gone: its connection`);
  });

  it('whose rank hangs ends with its name', async () => {
    const two = await job([1, 2].map(() => [...endless, '--out', 'hung']));
    await isTraining('hung');
    two.processes[1]!.kill('SIGSTOP');
    const begun = performance.now();
    await once(two.processes[0]!, 'close');
    expect(performance.now() - begun).toBeLessThan(10_000);
    expect(two.said(0)).toContain(`rank 1 on ${hostname()} has not answered for 3 s`);
  });

  it('whose ranks are told different things says what, in every rank', async () => {
    const two = await job([
      [...endless, '--out', 'different'],
      [...endless, '--out', 'different', '--lr', '2e-3'],
    ]);
    expect(await two.ends()).toEqual([1, 1]);
    const text = `rank 1 on ${hostname()} disagrees: configuration.learningRate is 0.002, at rank 0 0.001\n`;
    for (const rank of [0, 1]) expect(two.said(rank)).toBe(text);
    expect(existsSync(place.path('different'))).toBe(false);
  });

  it('whose ranks read different data says which shard', async () => {
    place.data({ train: [2000, 1501, 1000], val: 1300, vocabulary: 100, name: 'other' });
    const two = await job([
      [...endless, '--out', 'data-differs'],
      [...endless, '--out', 'data-differs', '--data', 'other'],
    ]);
    expect(await two.ends()).toEqual([1, 1]);
    expect(two.said(0)).toMatch(/rank 1 on .* disagrees: training\.1\.tokens is 1501, at rank 0 1500/);
  });

  it('with a token of its own lets in nobody else', async () => {
    const args = [...endless, '--out', 'token', '--stop-after', '2'];
    const two = await job([args, args], [{ GPT2_JOB_TOKEN: 'a', GPT2_JOIN_SECONDS: '3' }, { GPT2_JOB_TOKEN: 'b' }]);
    expect(await two.ends()).toEqual([1, 1]);
    expect(two.said(1)).toMatch(
      /rank 1 on .*: rank 0 at 127\.0\.0\.1:\d+ refused this rank: its job token is another\n/,
    );
    expect(two.said(0)).toMatch(/rank 0 on .*: rank 1 has not come to port \d+ within 3 s/);
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
    const two = new Job();
    jobs.push(two);
    const args = [...shape, ...`--steps 5 --val-every 0 --out by-${name}`.split(' ')];
    for (const rank of [0, 1]) two.start(args, environment(rank));
    expect(await two.ends(), two.said(0)).toEqual([0, 0]);
    expect(two.said(0)).toContain('2 ranks on this machine');
    expect(two.said(1)).toBe('');
    expect(series(`by-${name}`).train.length).toBe(5);
  });
});

describe('train --gpus', () => {
  const endless = [...tiny, ...shape, ...'--steps 1000000 --val-every 0'.split(' ')];

  it('passes Ctrl-C on, and all ranks stop, saved', async () => {
    const child = place.start(['train', ...endless, '--out', 'interrupted', '--gpus', '2']);
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    child.stdout.resume();
    const path = logPath(place.path('interrupted'));
    while (!existsSync(path) || readFileSync(path, 'utf8').split('\n').length < 5) await setTimeout(20);
    child.kill('SIGINT');
    const [code] = (await once(child, 'close')) as [number];
    expect(code, said).toBe(130);
    expect(said).toMatch(/^\nstopping after this step .*\nstopped after \d+ of 1000000 steps and saved; continue with/);
  });

  it('says that its port is busy', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const child = spawn(process.execPath, [...command, 'train', ...endless, '--out', 'busy', '--gpus', '2'], {
      cwd: place.folder,
      env: { ...process.env, MASTER_PORT: String(port) },
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const [code] = (await once(child, 'close')) as [number];
    server.close();
    expect(code).toBe(1);
    expect(said).toContain(`cannot listen on port ${port}: it is in use`);
  });

  it('refuses what the command line alone shows to be wrong, before any process is started', () => {
    const { code, stderr } = place.run(['train', ...tiny, '--gpus', '2', '--batch', '2', '--total-batch', '96']);
    expect(code).toBe(2);
    expect(stderr).toBe('--total-batch 96 is not a multiple of --batch 2 x --seq 16 x --gpus 2 = 64 tokens\n');
  });
});
