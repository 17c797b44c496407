// Collectives of the CUDA library on two GPUs: to the bit what the order of ranks gives, by copy engines, over NCCL where those are
// refused, and over NCCL as between machines (GPT2_NCCL_LIB names it where it is not installed).
import { describe, expect, it } from 'vitest';
import { expectCollectives, gpuCount, together } from '../support/collectives.ts';
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
    (_, parts, circumstances) => expectCollectives(ranks, 30_001, parts, { ...circumstances, kind: 'cuda' }),
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
