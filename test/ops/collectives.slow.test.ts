// Collectives of the CPU library, each rank a process: sums in the order of ranks, to the bit, and a rank that is gone,
// silent or somewhere else named by every error. Those of GPUs are held to the same in test/gpu/collectives.test.ts.
import { describe, expect, it } from 'vitest';
import { GPT2_COMMUNICATOR } from '../../src/native/bindings.generated.ts';
import { Communicator } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { expectCollectives, together } from '../support/collectives.ts';

describe('collectives on the CPU', () => {
  // Less than the chunk of 65,536 that is sent at a time, and more, no multiple of anything.
  it.each([
    [2, 7],
    [3, 70_001],
  ])('%i ranks add and gather %i elements in the order of ranks, to the bit', (ranks, count) =>
    expectCollectives(ranks, count, ranks),
  );

  it('a rank that is killed is named', async () => {
    const [root, other, killed] = await together(['all_reduce', 'all_reduce', 'die'], 10);
    expect(killed!.signal).toBe('SIGKILL');
    expect(root!.error).toMatch(/^gpt2_all_reduce: rank 2 is gone: its connection is closed$/);
    // Rank 0 ends over it.
    expect(other!.error).toMatch(/^gpt2_all_reduce: rank 0 is gone: its connection is closed$/);
  });

  it('a round finds what the round before has written', async () => {
    for (const { values } of await together(['rounds', 'rounds'], 2)) expect(values![0]).toBe(0);
  });

  it('a rank that hangs is named after the time to wait', async () => {
    const begun = performance.now();
    const [root] = await together(['all_reduce', 'hang'], 10, { timeoutMilliseconds: 3000 });
    expect(root!.error).toContain('rank 1 has not answered for 3 s');
    expect(performance.now() - begun).toBeLessThan(60_000);
  });

  it('ranks that enqueue different collectives are told so', async () => {
    const [root] = await together(['all_reduce', 'all_gather'], 10);
    expect(root!.error).toMatch(
      /rank 1 enqueued all_gather of 40 bytes as number 0, rank 0 all_reduce of 80 bytes as number 0/,
    );
  });
});

it('ranks on several machines are refused', async () => {
  const [root] = await together(['all_reduce', 'all_reduce'], 10, { isOneMachine: false });
  expect(root!.error).toContain('the CPU library joins ranks of one machine');
});

it('a communicator of one, or of a rank that is none of it, is refused', () => {
  using device = Device.open({ kind: 'cpu' });
  const options = { id: new Uint8Array(GPT2_COMMUNICATOR.GPT2_COMMUNICATOR_ID_SIZE), timeoutMilliseconds: 1000 };
  expect(() => new Communicator(device, { ...options, rank: 0, ranks: 1 })).toThrow('at least 2 ranks');
  expect(() => new Communicator(device, { ...options, rank: 2, ranks: 2 })).toThrow('rank 2 of 2');
  expect(() => new Communicator(device, { ...options, rank: 0, ranks: 2 })).toThrow('gpt2_communicator_id');
});
