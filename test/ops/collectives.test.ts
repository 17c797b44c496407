// Collectives of the CPU library, each rank a process: sums in the order of ranks, to the bit, and a rank that is gone,
// silent or somewhere else named by every error. Over NCCL they are held to the same in test/gpu/ranks.test.ts.
import { type ChildProcess, fork } from 'node:child_process';
import { afterEach, describe, expect, it } from 'vitest';
import { Communicator } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { type RankTask, startOf } from '../support/collective-rank.ts';

interface Answer {
  readonly values?: number[];
  readonly error?: string;
  readonly id?: number[];
  readonly signal?: string;
}

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** What each rank answers, by rank. */
async function together(
  ops: readonly RankTask['op'][],
  count: number,
  timeoutMilliseconds = 20_000,
): Promise<Answer[]> {
  const ranks = ops.length;
  const processes = ops.map(() =>
    fork(new URL('../support/collective-rank.ts', import.meta.url), { execArgv: ['--import', 'tsx'] }),
  );
  children.push(...processes);
  const answer = (child: ChildProcess) =>
    new Promise<Answer>((resolve) => {
      child.once('message', (message) => resolve(message as Answer));
      child.once('exit', (_, signal) => resolve({ signal: signal ?? 'none' }));
    });
  const tell = (rank: number, id?: number[]) => {
    processes[rank]!.send({ rank, ranks, op: ops[rank], count, timeoutMilliseconds, id });
    return answer(processes[rank]!);
  };
  const { id } = await tell(0);
  // One that hangs never answers.
  return Promise.all(ops.map((op, rank) => (op === 'hang' ? void tell(rank, id) : tell(rank, id)))) as Promise<
    Answer[]
  >;
}

const summed = (parts: readonly Float32Array[]): number[] =>
  [...parts[0]!].map((first, index) => parts.slice(1).reduce((sum, part) => Math.fround(sum + part[index]!), first));

describe('collectives on the CPU', () => {
  // A count over one chunk of 65,536, and one that is no multiple of anything.
  it.each([
    [2, 7],
    [3, 30_001],
  ])('%i ranks add and gather %i elements in the order of ranks, to the bit', async (ranks, count) => {
    const all = (op: RankTask['op']) =>
      together(
        Array.from({ length: ranks }, () => op),
        count,
      );
    const starts = Array.from({ length: ranks }, (_, rank) => startOf(rank, ranks * count));
    const sum = summed(starts);
    for (const { values } of await all('all_reduce')) expect(values).toEqual(sum);
    for (const [rank, { values }] of (await all('reduce_scatter')).entries()) {
      expect(values!.slice(rank * count, (rank + 1) * count)).toEqual(sum.slice(rank * count, (rank + 1) * count));
    }
    const parts = Array.from({ length: ranks }, (_, rank) => startOf(rank, count));
    const gathered = parts.flatMap((part) => [...part]);
    for (const { values } of await all('all_gather')) expect(values).toEqual(gathered);
    const norm = Math.sqrt(gathered.reduce((squares, value) => squares + value * value, 0));
    for (const { values } of await all('norm')) expect(Math.abs(values![0]! / norm - 1)).toBeLessThan(1e-7);
  });

  it('a rank that is killed is named', async () => {
    const [root, other, killed] = await together(['all_reduce', 'all_reduce', 'die'], 10);
    expect(killed!.signal).toBe('SIGKILL');
    expect(root!.error).toMatch(/^gpt2_all_reduce: rank 2 is gone: .*\(GPT2_RANK_ERROR\)$/);
    // Rank 0 ends over it.
    expect(other!.error).toMatch(/^gpt2_all_reduce: rank 0 is gone: /);
  });

  it('a rank that hangs is named after the time to wait', async () => {
    const begun = performance.now();
    const [root] = await together(['all_reduce', 'hang'], 10, 1000);
    expect(root!.error).toContain('rank 1 has not answered for 1 s');
    expect(performance.now() - begun).toBeLessThan(10_000);
  });

  it('ranks that issue different collectives are told so', async () => {
    const [root] = await together(['all_reduce', 'all_gather'], 10);
    expect(root!.error).toMatch(/rank 1 issued all_gather of 10 as number 0, rank 0 all_reduce of 20 as number 0/);
  });
});

it('a communicator of one, or of a rank that is none of it, is refused', () => {
  using device = Device.open({ kind: 'cpu' });
  const options = { id: new Uint8Array(128), timeoutMilliseconds: 1000 };
  expect(() => new Communicator(device, { ...options, rank: 0, ranks: 1 })).toThrow('at least 2 ranks');
  expect(() => new Communicator(device, { ...options, rank: 2, ranks: 2 })).toThrow('rank 2 of 2');
  expect(() => new Communicator(device, { ...options, rank: 0, ranks: 2 })).toThrow('gpt2_communicator_id');
});
