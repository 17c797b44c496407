// Ranks as processes, each with a device of its own, that enqueue what they are told and answer with what they have then
// (collective-rank.ts).
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { moduleLoader, programOf } from './built.ts';
import type { RankTask } from './collective-rank.ts';
import { startOf } from './collectives-start.ts';

/** GPUs of this machine. */
export const gpuCount =
  (spawnSync('nvidia-smi', ['-L'], { encoding: 'utf8' }).stdout ?? '').match(/^GPU \d/gm)?.length ?? 0;

export interface Answer {
  readonly values?: number[];
  readonly error?: string;
  readonly id?: number[];
  readonly signal?: string;
}

export interface Circumstances {
  /** Default 20 s. */
  readonly timeoutMilliseconds?: number;
  /** Whose ranks; of GPUs each takes one. Default the CPU's. */
  readonly kind?: LibraryKind;
  /** Whether the ranks know that they are on one machine. Default true. */
  readonly isOneMachine?: boolean;
  readonly env?: Record<string, string>;
}

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** Each rank's answer, by rank. */
export async function together(
  ops: readonly RankTask['op'][],
  count: number,
  { timeoutMilliseconds = 20_000, kind = 'cpu', isOneMachine = true, env = {} }: Circumstances = {},
): Promise<Answer[]> {
  const ranks = ops.length;
  const program = await programOf(join(import.meta.dirname, 'collective-rank.ts'));
  const options = { execArgv: moduleLoader, env: { ...process.env, ...env } };
  const processes = ops.map(() => fork(program, options));
  children.push(...processes);
  const answer = (child: ChildProcess) =>
    new Promise<Answer>((resolve) => {
      child.once('message', (message) => resolve(message as Answer));
      child.once('exit', (_, signal) => resolve({ signal: signal ?? 'none' }));
    });
  const tell = (rank: number, id?: number[]) => {
    const task: RankTask = { rank, ranks, op: ops[rank]!, count, timeoutMilliseconds, kind, isOneMachine, id };
    processes[rank]!.send(task);
    return answer(processes[rank]!);
  };
  // Ranks wait for each other from here on, as long as they were told, and not while one still loads its modules.
  const [{ id, ...rest }] = (await Promise.all(ops.map((_, rank) => tell(rank)))) as [Answer];
  if (!id) return [rest];
  // A rank that hangs never answers; nor may one that rank 0 abandons: on a GPU it waits for rank 0's part.
  const answers = (op: RankTask['op'], rank: number) =>
    op !== 'hang' && (rank === 0 || !ops[0]!.startsWith('abandoned'));
  return Promise.all(ops.map((op, rank) => (answers(op, rank) ? tell(rank, id) : void tell(rank, id)))) as Promise<
    Answer[]
  >;
}

/** Element by element, in the order of ranks. */
const summed = (parts: readonly Float32Array[]): number[] =>
  [...parts[0]!].map((first, index) => parts.slice(1).reduce((sum, part) => Math.fround(sum + part[index]!), first));

const normOf = (values: readonly number[]): number => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));

/** Checks every collective of ranks that have `count` elements each. @param parts sums that a rank gets apart: 1, or one a rank */
export async function expectCollectives(ranks: number, count: number, parts: number, on: Circumstances = {}) {
  const all = async (op: RankTask['op']) => {
    const answers = await together(new Array(ranks).fill(op), count, on);
    for (const { error } of answers) expect(error).toBeUndefined();
    return answers;
  };
  const startsOf = (length: number) => Array.from({ length: ranks }, (_, rank) => startOf(rank, length));
  const starts = startsOf(ranks * count);
  const sum = summed(starts);
  for (const { values } of await all('all_reduce')) expect(values).toEqual(sum);
  for (const [rank, { values }] of (await all('reduce_scatter')).entries()) {
    const rows = (parts === 1 ? [Float32Array.from(sum)] : starts).flatMap((row) => [
      ...new Float32Array(5),
      ...row.slice(rank * count, (rank + 1) * count),
      ...new Float32Array(27),
    ]);
    expect(values).toEqual(rows);
  }
  const gathered = startsOf(count).flatMap((part) => [...part]);
  for (const { values } of await all('all_gather')) expect(values).toEqual(gathered);
  for (const { values } of await all('large')) expect(values).toEqual([0]);
  const sums = starts.map((_, rank) => summed(starts.map((_, row) => startOf(rank + row, count))));
  const limit = on.kind === 'cuda' ? 2e-7 : 1e-7;
  for (const [rank, { values }] of (await all('norm')).entries()) {
    const [ofOne, ofRows, ...firstRow] = values!;
    expect(Math.abs(ofOne! / normOf(gathered) - 1)).toBeLessThan(limit);
    expect(Math.abs(ofRows! / normOf(sums.flat()) - 1)).toBeLessThan(limit);
    expect(firstRow).toEqual(sums[rank]);
  }
}
