// Collectives of the CUDA library on two GPUs: to the bit what the order of ranks gives, by copy engines, over NCCL where those are
// refused, and over NCCL as between machines (GPT2_NCCL_LIB names it where it is not installed).
import { describe, expect, it } from 'vitest';
import type { RankTask } from '../support/collective-rank.ts';
import { gpuCount, summed, together } from '../support/collectives.ts';
import { startOf } from '../support/collectives-start.ts';
import { rounds } from '../support/rounds.ts';

const ranks = 2;

describe.skipIf(gpuCount < ranks)('collectives on two GPUs', () => {
  it.each([
    // Copy engines need no NCCL.
    ['copies', ranks, { isOneMachine: true, env: { GPT2_NCCL_LIB: '/nowhere/libnccl.so.2' } }],
    ['NCCL', 1, { isOneMachine: true, env: { GPT2_PEER_COPIES: '0' } }],
    ['NCCL as between machines', 1, { isOneMachine: false, env: {} }],
  ] as const)(
    '%s add and gather',
    async (_, parts, circumstances) => {
      const count = 30_001;
      const all = async (op: RankTask['op']) => {
        const answers = await together([op, op], count, { ...circumstances, kind: 'cuda' });
        for (const { error } of answers) expect(error).toBeUndefined();
        return answers;
      };
      const starts = [0, 1].map((rank) => startOf(rank, ranks * count));
      const sum = summed(starts);
      for (const { values } of await all('all_reduce')) expect(values).toEqual(sum);
      for (const [rank, { values }] of (await all('reduce_scatter')).entries()) {
        const rows = parts === 1 ? [Float32Array.from(sum)] : starts;
        const wanted = rows.flatMap((row) => [
          ...new Float32Array(5),
          ...row.slice(rank * count, (rank + 1) * count),
          ...new Float32Array(27),
        ]);
        expect(values).toEqual(wanted);
      }
      const gathered = [0, 1].flatMap((rank) => [...startOf(rank, count)]);
      for (const { values } of await all('all_gather')) expect(values).toEqual(gathered);
      for (const { values } of await all('large')) expect(values).toEqual([0]);
      const normOf = (values: readonly number[]) => Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
      const sums = [0, 1].map((rank) => summed([0, 1].map((row) => startOf(rank + row, count))));
      for (const [rank, { values }] of (await all('norm')).entries()) {
        const [ofOne, ofRows, ...firstRow] = values!;
        expect(Math.abs(ofOne! / normOf(gathered) - 1)).toBeLessThan(2e-7);
        expect(Math.abs(ofRows! / normOf(sums.flat()) - 1)).toBeLessThan(2e-7);
        expect(firstRow).toEqual(sums[rank]);
      }
    },
    120_000,
  );

  const thousands = 100 * rounds;
  it(`each of ${thousands},000 rounds finds what the round before has written`, async () => {
    for (const { error, values } of await together(['rounds', 'rounds'], thousands, { kind: 'cuda' })) {
      expect(error).toBeUndefined();
      const [wrong, microseconds] = values!;
      console.log(`${microseconds!.toFixed(2)} us a round, ${wrong} numbers wrong`);
      expect(wrong).toBe(0);
    }
  }, 600_000);

  it('says what is missing where neither reaches the other', async () => {
    const env = { GPT2_PEER_COPIES: '0', GPT2_NCCL_LIB: '/nowhere/libnccl.so.2' };
    for (const { error } of await together(['all_reduce', 'all_reduce'], 10, { kind: 'cuda', env })) {
      expect(error).toContain('no copies from GPU to GPU (GPT2_PEER_COPIES is 0), and NCCL is needed, and /nowhere');
    }
  });
});
