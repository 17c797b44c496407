// Ranks on two GPUs, by their copy engines and over NCCL (GPT2_NCCL_LIB names it where it is not installed): the figures of one
// GPU with accumulation, the same bits at every run, checkpoints that move, a rank that is killed and one that hangs, torchrun.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { Dtype } from '../../src/native/device.ts';
import { logPath } from '../../src/runs/paths.ts';
import { readRun, type Series } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { command, Workplace, withCode } from '../support/cli.ts';
import { gpuCount } from '../support/collectives.ts';
import { figuresOf } from '../support/figures.ts';

const hasTorch = spawnSync('python3', ['-c', 'import torch']).status === 0;

/**
 * How far losses and norms may be from those of one GPU. fp32: the sums of two micro-batches are taken in another order.
 * bf16: of two GPUs each keeps its gradients in bf16, one that accumulates in fp32. fp8: a difference of weights moves numbers to
 * the next of E4M3.
 */
const within: Partial<Record<Dtype, { train: number; norm: number }>> = {
  fp32: { train: 1e-5, norm: 1e-4 },
  bf16: { train: 0.02, norm: 0.1 },
  fp8: { train: 0.05, norm: 0.2 },
};

/** Milliseconds. What hangs is ended before the test is, so that the next has its turn. */
const longestRun = 90_000;

/** The carriers of data between ranks; copy engines need no NCCL. */
const carriers = { copies: { GPT2_NCCL_LIB: '/nowhere/libnccl.so.2' }, NCCL: { GPT2_PEER_COPIES: '0' } };
const ways = { copies: /copies between GPUs( over NVLink|, flushed,) at /, NCCL: /NCCL \(GPT2_PEER_COPIES is 0\) at / };

describe.skipIf(gpuCount < 2)('ranks on two GPUs', () => {
  let place: Workplace;
  beforeAll(() => {
    place = new Workplace();
    place.data({ train: [60_000, 40_000], val: 20_000, vocabulary: 500, below: 500 });
  });
  afterAll(() => place[Symbol.dispose]());

  const sizes = '--data data --layers 4 --channels 256 --heads 4 --context 128 --seq 128 --sample-every 0';
  const step = '--batch 4 --total-batch 2048 --order sequence --lr 1e-3 --warmup 5 --weight-decay 0.1 --val-every 20';
  const options = `${sizes} ${step}`.split(' ');
  const runOver = (carrier: keyof typeof carriers, ...args: string[]) =>
    withCode(0, place.run(['train', ...options, ...args], carriers[carrier], '', longestRun));
  const run = (...args: string[]) => runOver('copies', ...args);
  const series = (out: string) => readRun(place.path(out)).series;
  const furthest = (a: Series, b: Series): number => {
    expect(a.length).toBe(b.length);
    return Math.max(...a.map(([, value], index) => Math.abs(value - b[index]![1])));
  };

  describe.each<Dtype>(['fp32', 'bf16', 'fp8'])('%s', (dtype) => {
    const long = ['--dtype', dtype, '--steps', '40'];
    beforeAll(() => void run(...long, '--out', `one-${dtype}`, '--val-steps', '4'));

    // 2 micro-batches a rank, and one, whose gradients in bf16 are kept otherwise. By itself --overlap is on with copies, and
    // off with NCCL over NVLink.
    it.each([
      ['copies', 1, 4, 'off'],
      ['copies', 1, 8, 'off'],
      ['copies', 0, 8, 'on'],
      ['NCCL', 0, 4, 'auto'],
      ['NCCL', 1, 8, 'on'],
    ] as const)(
      '%s, ZeRO %i with batch %i: the figures of one, and the same bits again, --overlap %s',
      (carrier, zero, batch, again) => {
        const sizes = ['--zero', String(zero), '--batch', String(batch), '--val-steps', String(8 / batch)];
        const given = [...long, '--gpus', '2', ...sizes];
        const out = `two-${dtype}-${carrier}-${zero}-${batch}`;
        const { stdout } = runOver(carrier, ...given, '--out', out);
        expect(stdout).toContain('2 ranks on this machine; ');
        expect(stdout).toMatch(ways[carrier]);
        console.log(stdout.split('\n')[0]);
        const [alone, together] = [series(`one-${dtype}`), series(out)];
        const worst = { train: furthest(alone.train, together.train), norm: furthest(alone.norm, together.norm) };
        console.log(`${out}: loss within ${worst.train.toExponential(1)}, norm ${worst.norm.toExponential(1)}`);
        expect(worst.train).toBeLessThan(within[dtype]!.train);
        expect(worst.norm).toBeLessThan(within[dtype]!.norm);
        expect(Math.abs(together.val[0]![1] - alone.val[0]![1])).toBeLessThan(1e-6);
        runOver(carrier, ...given, '--overlap', again, '--out', `${out}-again`);
        expect(figuresOf(place.path(`${out}-again`))).toEqual(figuresOf(place.path(out)));
        const files = (name: string) => resolveCheckpoint(place.path(name)).manifest.files;
        expect(files(`${out}-again`)).toEqual(files(out));
      },
    );

    it('a run that is stopped and resumed on two is one that went through, bit for bit, saves beside it or not', () => {
      const given = [...long, '--gpus', '2', '--val-every', '0'];
      run(...given, '--out', `straight-${dtype}`);
      run(...given, '--out', `stopped-${dtype}`, '--save-every', '4', '--keep', '2', '--stop-after', '21');
      run('--out', `stopped-${dtype}`, '--resume', '--val-every', '0');
      expect(figuresOf(place.path(`stopped-${dtype}`))).toEqual(figuresOf(place.path(`straight-${dtype}`)));
    });

    it('a checkpoint moves from two GPUs to one and back', () => {
      run(...long, '--gpus', '2', '--out', `moved-${dtype}`, '--stop-after', '13', '--val-steps', '2');
      run('--out', `moved-${dtype}`, '--resume', '--gpus', '1', '--stop-after', '27', '--val-steps', '4');
      run('--out', `moved-${dtype}`, '--resume', '--gpus', '2', '--val-steps', '2');
      const distance = furthest(series(`one-${dtype}`).train, series(`moved-${dtype}`).train);
      expect(distance).toBeLessThan(within[dtype]!.train);
    });
  });

  it.each([
    ['SIGKILL', 'copies'],
    ['SIGKILL', 'NCCL'],
    ['SIGSTOP', 'copies'],
  ] as const)('a rank that gets %s ends the job within 30 s, by name: %s', async (signal, carrier) => {
    const out = `lost-${signal}-${carrier}`;
    const processes = [0, 1].map((rank) =>
      spawn(
        process.execPath,
        [...command, 'train', ...options, '--steps', '1000000', '--val-every', '0', '--out', out],
        {
          cwd: place.folder,
          env: {
            ...process.env,
            ...carriers[carrier],
            ...{ RANK: String(rank), WORLD_SIZE: '2', LOCAL_RANK: String(rank), LOCAL_WORLD_SIZE: '2' },
            ...{ MASTER_ADDR: '127.0.0.1', MASTER_PORT: String(20_000 + (process.pid % 10_000)) },
          },
        },
      ),
    );
    onTestFinished(() => processes.forEach((child) => void child.kill('SIGKILL')));
    let said = '';
    processes[0]!.stdout.resume();
    processes[0]!.stderr.setEncoding('utf8').on('data', (text: string) => {
      said += text;
    });
    const path = logPath(place.path(out));
    while (!existsSync(path) || readFileSync(path, 'utf8').split('\n').length < 20) await setTimeout(50);
    processes[1]!.kill(signal);
    const begun = performance.now();
    if (processes[0]!.exitCode === null) await once(processes[0]!, 'close');
    expect(performance.now() - begun).toBeLessThan(30_000);
    expect(processes[0]!.exitCode, said).toBe(1);
    expect(said).toContain(`rank 1 on ${hostname()} ${signal === 'SIGKILL' ? 'is gone' : 'sent no heartbeat'}`);
  });

  it.skipIf(!hasTorch)('torchrun starts it (needs python3 with torch)', () => {
    const flags = '--steps 3 --warmup 0 --out by-torchrun'.split(' ');
    const program = [process.execPath, ...command, 'train', ...options, ...flags];
    const { status, stdout, stderr } = spawnSync(
      'python3',
      [
        ...['-m', 'torch.distributed.run', '--standalone', '--local-addr', '127.0.0.1'],
        ...['--nproc-per-node', '2', '--no-python', ...program],
      ],
      { cwd: place.folder, encoding: 'utf8', timeout: longestRun },
    );
    expect(status, stderr).toBe(0);
    expect(stdout).toContain('2 ranks on this machine');
    expect(series('by-torchrun').train.length).toBe(3);
  });
});
