// Shared by tests of several ranks: a model and steps that 1, 2 and 3 of them can do, and jobs as another launcher starts them.
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect } from 'vitest';
import type { Finished, Line, Workplace } from './cli.ts';
import { listening } from './until.ts';

/** The data of `rankData`, on one thread. */
export const onRankData = '--data data --seq 16 --device cpu --threads 1 --sample-every 0'.split(' ');
/** The same, of a model so small that a step takes milliseconds. */
export const tinyRanks = [...onRankData, ...'--layers 7 --channels 32 --heads 2 --context 16'.split(' ')];
/** Twelve sequences a step, which 1, 2 and 3 ranks can share. */
export const sharedSteps = '--batch 2 --total-batch 192 --order sequence --lr 1e-3 --warmup 5 --weight-decay 0.1'.split(
  ' ',
);

/** Shards of 62, 46 and 31 batches of 2 x 16 tokens. */
export const rankData = (place: Workplace): string =>
  place.data({ train: [2000, 1500, 1000], val: 1300, vocabulary: 100 });

/**
 * Runs a command that must succeed in ranks as torchrun starts them, and returns the result of rank 0. Rank 0 is in this process:
 * a launcher and a process for rank 0 cost as much processor time as two more ranks.
 */
export async function inRanks(place: Workplace, ranks: number, line: Line): Promise<Finished> {
  const port = await freePort();
  const others = Array.from({ length: ranks - 1 }, (_, index) =>
    place.finished(line, torchrunVariables(index + 1, ranks, port)),
  );
  const first = await place.here(line, torchrunVariables(0, ranks, port));
  for (const { code, stderr } of [first, ...(await Promise.all(others))]) expect(code, stderr).toBe(0);
  return first;
}

const torchrunVariables = (rank: number, ranks: number, port: number) => ({
  ...{ RANK: `${rank}`, WORLD_SIZE: `${ranks}`, LOCAL_RANK: `${rank}`, LOCAL_WORLD_SIZE: `${ranks}` },
  ...{ MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${port}` },
});

/** Ranks as another launcher starts them; they are killed when the test ends. */
export class Job {
  readonly #place: Workplace;
  readonly #program: readonly string[] | undefined;
  readonly #ranks: ReturnType<Workplace['begin']>[] = [];

  /** @param program arguments of node that run `gpt2` */
  constructor(place: Workplace, program?: readonly string[]) {
    this.#place = place;
    this.#program = program;
  }

  get processes() {
    return this.#ranks.map(({ child }) => child);
  }

  start(args: readonly string[], environment: Record<string, string>): void {
    const line = ['train', ...tinyRanks, ...args];
    this.#ranks.push(this.#place.begin(line, { GPT2_SILENCE_SECONDS: '8', ...environment }, this.#program));
  }

  /** Starts a rank of `ranks` as torchrun does. */
  startRank(rank: number, ranks: number, port: number, args: readonly string[], environment: object = {}): void {
    this.start(args, { ...torchrunVariables(rank, ranks, port), ...environment });
  }

  said = (rank: number): string => Object.values(this.#ranks[rank]!.said).join('');

  /** Exit codes or signals, by rank. */
  async ends(): Promise<(number | string | null)[]> {
    const ends = await Promise.all(this.#ranks.map(({ ended }) => ended));
    return ends.map(({ code, signal }) => code ?? signal);
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listening(server);
  server.close();
  await once(server, 'close');
  return port;
}
