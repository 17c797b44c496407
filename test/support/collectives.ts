// Ranks as processes, each with a device of its own, that enqueue what they are told and answer with what they have then
// (collective-rank.ts).
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterEach } from 'vitest';
import type { LibraryKind } from '../../src/native/find-library.ts';
import { moduleLoader, programOf } from './built.ts';
import type { RankTask } from './collective-rank.ts';

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

/** What each rank answers, by rank. */
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
  const { id, ...rest } = await tell(0);
  if (!id) return [rest];
  // A rank that hangs never answers; nor may one that rank 0 abandons: on a GPU it waits for rank 0's part.
  const answers = (op: RankTask['op'], rank: number) =>
    op !== 'hang' && (rank === 0 || !ops[0]!.startsWith('abandoned'));
  return Promise.all(ops.map((op, rank) => (answers(op, rank) ? tell(rank, id) : void tell(rank, id)))) as Promise<
    Answer[]
  >;
}

/** Element by element, in the order of ranks. */
export const summed = (parts: readonly Float32Array[]): number[] =>
  [...parts[0]!].map((first, index) => parts.slice(1).reduce((sum, part) => Math.fround(sum + part[index]!), first));
