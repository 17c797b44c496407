// The order of batches: the generator, llm.c's shuffle, sequences, positions.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { identityPermutation, MersenneTwister } from '../../src/batches/mersenne-twister.ts';
import {
  type Order,
  type OrderSizes,
  type Position,
  SampleOrder,
  SequenceOrder,
  startPosition,
} from '../../src/batches/order.ts';
import { readFixtureJson } from '../support/fixtures.ts';

const sizes: OrderSizes = {
  shardTokens: [1001, 517, 770],
  batch: 2,
  sequence: 16,
  rank: 0,
  ranks: 1,
  seed: 42,
  shuffle: true,
};

/** Where `count` micro-batches from a position on are read, and the position after them. */
function walk(order: Order, count: number, from: Position = startPosition) {
  const places: string[] = [];
  let position = from;
  for (let index = 0; index < count; index++) {
    places.push(
      order
        .extents(position)
        .map(({ shard, start }) => `${shard}:${start}`)
        .join(' '),
    );
    position = order.next(position);
  }
  return { places, position };
}

describe('MersenneTwister', () => {
  it('begins as every MT19937 seeded with 42 does', () => {
    const twister = new MersenneTwister(42);
    expect([twister.next(), twister.next(), twister.next()]).toEqual([1608637542, 3421126067, 4083286876]);
  });

  it.each(
    Object.entries(
      readFixtureJson<{ shuffle: Record<string, { seed: number; counts: number[]; permutations: number[][] }> }>(
        'init.json',
      ).shuffle,
    ),
  )('shuffles as recorded: %s', (_, { seed, counts, permutations }) => {
    const twister = new MersenneTwister(seed);
    counts.forEach((count, index) => {
      const values = identityPermutation(count);
      twister.shuffle(values);
      expect([...values]).toEqual(permutations[index]);
    });
  });
});

describe('SampleOrder', () => {
  const perEpoch = Math.floor(1000 / 32) + Math.floor(516 / 32) + Math.floor(769 / 32);

  it('reads every sample once in each pass, in another order each time', () => {
    const order = new SampleOrder(sizes);
    const first = walk(order, perEpoch);
    const second = walk(order, perEpoch, first.position);
    expect(first.position).toEqual({ epoch: 1, shard: 0, sample: 0 });
    expect(new Set(first.places).size).toBe(perEpoch);
    expect([...second.places].sort()).toEqual([...first.places].sort());
    expect(second.places).not.toEqual(first.places);
  });

  it('opens each shard once and reads it to its end before the next', () => {
    const shards = walk(new SampleOrder(sizes), perEpoch).places.map((place) => place.split(':')[0]);
    expect(shards.filter((shard, index) => shard !== shards[index - 1]).length).toBe(3);
  });

  it('any position gives what would have followed', () => {
    const long = walk(new SampleOrder(sizes), 3 * perEpoch).places;
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 3 * perEpoch - 5 }),
        fc.integer({ min: 0, max: 3 * perEpoch - 5 }),
        (to, back) => {
          const order = new SampleOrder(sizes);
          const { position } = walk(order, to);
          walk(order, back);
          expect(walk(order, 5, position).places).toEqual(long.slice(to, to + 5));
        },
      ),
      { numRuns: 30 },
    );
  });

  it('without shuffling reads the files as they lie', () => {
    const { places } = walk(new SampleOrder({ ...sizes, shuffle: false }), 3);
    expect(places).toEqual(['0:0', '0:32', '0:64']);
  });

  it('ranks read disjoint parts that together are the whole', () => {
    const places = [0, 1].flatMap(
      (rank) => walk(new SampleOrder({ ...sizes, rank, ranks: 2, shuffle: false }), 15).places,
    );
    expect(places.sort()).toEqual(walk(new SampleOrder({ ...sizes, shuffle: false }), 30).places.sort());
  });
});

describe('where ranks are when rank 0 is somewhere', () => {
  it.each([SampleOrder, SequenceOrder])('%s: after as many micro-batches', (Kind) => {
    for (const ranks of [2, 3]) {
      const orders = Array.from({ length: ranks }, (_, rank) => new Kind({ ...sizes, rank, ranks }));
      let positions = orders.map(() => startPosition);
      // A few passes, in which ranks open the shards each in an order of its own.
      for (let micro = 0; micro < 100; micro++) {
        for (const [rank, position] of positions.entries()) {
          const other = new Kind({ ...sizes, rank, ranks });
          expect(other.whenRootIsAt(positions[0]!)).toEqual(position);
        }
        positions = orders.map((order, rank) => order.next(positions[rank]!));
      }
      expect(positions[0]!.epoch).toBeGreaterThan(1);
    }
  });
});

describe('SequenceOrder', () => {
  /** The sequences of each step of 8, whatever the split. */
  const steps = (batch: number, ranks: number, accumulation: number) => {
    const orders = Array.from({ length: ranks }, (_, rank) => new SequenceOrder({ ...sizes, batch, rank, ranks }));
    let position = startPosition;
    return Array.from({ length: 40 }, () => {
      const places: string[] = [];
      for (let micro = 0; micro < accumulation; micro++) {
        for (const order of orders)
          places.push(...order.extents(position).map(({ shard, start }) => `${shard}:${start}`));
        position = orders[0]!.next(position);
      }
      return places;
    });
  };

  it.each([
    [4, 1, 2],
    [2, 1, 4],
    [2, 2, 2],
    [1, 8, 1],
  ])('batch %i, %i ranks, %i micro-batches see what one batch of 8 sees', (batch, ranks, accumulation) => {
    expect(steps(batch, ranks, accumulation)).toEqual(steps(8, 1, 1));
  });

  it('reads every sequence once in each pass', () => {
    const total = Math.floor(1000 / 16) + Math.floor(516 / 16) + Math.floor(769 / 16);
    const all = steps(8, 1, 1).flat();
    expect(new Set(all.slice(0, total)).size).toBe(total);
    expect(all.slice(total, total + 20)).not.toEqual(all.slice(0, 20));
  });
});
