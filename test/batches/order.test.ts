// The order of batches: the generator, llm.c's shuffle, stored and keyed permutations of sequences, positions.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { keyedPermutation } from '../../src/data/batches/keyed-permutation.ts';
import { identityPermutation, MersenneTwister } from '../../src/data/batches/mersenne-twister.ts';
import {
  mostStored,
  type Order,
  type OrderSizes,
  type Position,
  sampleOrder,
  sequenceOrder,
  startPosition,
} from '../../src/data/batches/order.ts';
import { readFixtureJson } from '../support/fixtures.ts';

const sizes: OrderSizes = {
  ...{ shardTokens: [1001, 517, 770], batch: 2, sequence: 16, rank: 0, ranks: 1, seed: 42, shuffle: true },
};

/** Where the sequences of a micro-batch are read. */
const placesAt = (order: Order, position: Position): string[] =>
  order.extents(position).map(({ shard, start }) => `${shard}:${start}`);

/** Where `count` micro-batches from a position on are read, and the position after them. */
function walk(order: Order, count: number, from: Position = startPosition) {
  const places: string[] = [];
  let position = from;
  for (let index = 0; index < count; index++) {
    places.push(placesAt(order, position).join(' '));
    position = order.next(position);
  }
  return { places, position };
}

describe('MersenneTwister', () => {
  it('begins as every MT19937 seeded with 42 does', () => {
    const twister = new MersenneTwister(42);
    expect([twister.next(), twister.next(), twister.next()]).toEqual([1608637542, 3421126067, 4083286876]);
  });

  type Shuffles = Record<string, { seed: number; counts: number[]; permutations: number[][] }>;
  const { shuffle } = readFixtureJson<{ shuffle: Shuffles }>('init.json');
  it.each(Object.entries(shuffle))('shuffles as recorded: %s', (_, { seed, counts, permutations }) => {
    const twister = new MersenneTwister(seed);
    counts.forEach((count, index) => {
      const values = identityPermutation(count);
      twister.shuffle(values);
      expect([...values]).toEqual(permutations[index]);
    });
  });
});

describe('sampleOrder', () => {
  const perEpoch = Math.floor(1000 / 32) + Math.floor(516 / 32) + Math.floor(769 / 32);

  it('reads every sample once in each pass, in another order each time', () => {
    const order = sampleOrder(sizes);
    const first = walk(order, perEpoch);
    const second = walk(order, perEpoch, first.position);
    expect(first.position).toEqual({ epoch: 1, shard: 0, sample: 0 });
    expect(new Set(first.places).size).toBe(perEpoch);
    expect([...second.places].sort()).toEqual([...first.places].sort());
    expect(second.places).not.toEqual(first.places);
  });

  it('opens each shard once and reads it to its end before the next', () => {
    const shards = walk(sampleOrder(sizes), perEpoch).places.map((place) => place.split(':')[0]);
    expect(shards.filter((shard, index) => shard !== shards[index - 1]).length).toBe(3);
  });

  it('any position gives what would have followed', () => {
    const long = walk(sampleOrder(sizes), 3 * perEpoch).places;
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 3 * perEpoch - 5 }),
        fc.integer({ min: 0, max: 3 * perEpoch - 5 }),
        (to, back) => {
          const order = sampleOrder(sizes);
          const { position } = walk(order, to);
          walk(order, back);
          expect(walk(order, 5, position).places).toEqual(long.slice(to, to + 5));
        },
      ),
      { numRuns: 30 },
    );
  });

  it('without shuffling reads the files as they lie', () => {
    const { places } = walk(sampleOrder({ ...sizes, shuffle: false }), 3);
    expect(places).toEqual(['0:0', '0:32', '0:64']);
  });

  it('ranks read disjoint parts that together are the whole', () => {
    const places = [0, 1].flatMap((rank) => walk(sampleOrder({ ...sizes, rank, ranks: 2, shuffle: false }), 15).places);
    expect(places.sort()).toEqual(walk(sampleOrder({ ...sizes, shuffle: false }), 30).places.sort());
  });
});

it.each([sampleOrder, sequenceOrder])(
  'where ranks are when rank 0 is somewhere: %s: after as many micro-batches',
  (orderIn) => {
    for (const ranks of [2, 3]) {
      const orders = Array.from({ length: ranks }, (_, rank) => orderIn({ ...sizes, rank, ranks }));
      let positions = orders.map(() => startPosition);
      // A few passes, in which ranks open the shards each in an order of its own.
      for (let micro = 0; micro < 100; micro++) {
        for (const [rank, position] of positions.entries()) {
          const other = orderIn({ ...sizes, rank, ranks });
          expect(other.whenRootIsAt(positions[0]!)).toEqual(position);
        }
        positions = orders.map((order, rank) => order.next(positions[rank]!));
      }
      expect(positions[0]!.epoch).toBeGreaterThan(1);
    }
  },
);

describe('keyedPermutation', () => {
  const keyed = (count: number, seed = 42) => keyedPermutation(count, new MersenneTwister(seed));

  it('is a permutation of every size up to 300', () => {
    for (let count = 1; count <= 300; count++) {
      for (const seed of [0, 42, 2 ** 32 - 1]) {
        const values = Array.from(identityPermutation(count), keyed(count, seed));
        expect(values.sort((a, b) => a - b)).toEqual([...identityPermutation(count)]);
      }
    }
  });

  it('is the one of before', () => {
    expect([0, 1, 2, 156_249_999].map(keyed(156_250_000))).toEqual([78_971_093, 144_474_427, 14_304_590, 104_101_296]);
  });

  const count = mostStored + 1;
  const next = keyed(count);
  const otherPass = keyed(count, (42 + 0x9e3779b1) % 2 ** 32);
  const otherSeed = keyed(count, 43);
  const [mean, variance] = [(count - 1) / 2, (count ** 2 - 1) / 12];
  const tenth = (value: number) => Math.floor((10 * value) / count);
  /** A pair of numbers that are unrelated if the permutation is random. */
  it.each<[name: string, (index: number) => readonly [number, number]]>([
    ['neighbours', (index) => [next(index), next(index + 1)]],
    ['sequences a batch of 64 apart', (index) => [next(index), next(index + 64)]],
    ['a sequence and how far the next is', (index) => [next(index), (next(index + 1) - next(index) + count) % count]],
    ['two passes', (index) => [next(index), otherPass(index)]],
    ['two seeds', (index) => [next(index), otherSeed(index)]],
  ])('%s are unrelated, and spread evenly over the shards', (_, pairAt) => {
    const samples = 200_000;
    let correlation = 0;
    const found = new Float64Array(100);
    for (let index = 0; index < samples; index++) {
      const [one, other] = pairAt(index);
      correlation += ((one - mean) * (other - mean)) / variance;
      found[10 * tenth(one) + tenth(other)]!++;
    }
    // Both are about normal with a standard deviation of 1. With two rounds instead of eight, some are over 100.
    expect(Math.abs(correlation / Math.sqrt(samples))).toBeLessThan(4.5);
    const wanted = samples / found.length;
    const square = found.reduce((sum, many) => sum + (many - wanted) ** 2 / wanted, 0);
    expect(Math.abs(square - 99) / Math.sqrt(2 * 99)).toBeLessThan(4.5);
  });
});

/** Two shards of so many sequences that their permutation is keyed. */
const large = { ...sizes, shardTokens: [16 * mostStored, 16 * 1000] };

describe('sequenceOrder', () => {
  /** The sequences of each step of 8, whatever the split. */
  const steps = (of: OrderSizes, batch: number, ranks: number, accumulation: number, from = startPosition) => {
    const orders = Array.from({ length: ranks }, (_, rank) => sequenceOrder({ ...of, batch, rank, ranks }));
    let position = from;
    return Array.from({ length: 40 }, () => {
      const places: string[] = [];
      for (let micro = 0; micro < accumulation; micro++) {
        for (const order of orders) places.push(...placesAt(order, position));
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
    expect(steps(sizes, batch, ranks, accumulation)).toEqual(steps(sizes, 8, 1, 1));
    // From the start, and over the seam of two passes.
    for (const sample of [0, mostStored + 900]) {
      const from = { epoch: 0, shard: sample === 0 ? 0 : 1, sample };
      expect(steps(large, batch, ranks, accumulation, from)).toEqual(steps(large, 8, 1, 1, from));
    }
  });

  it('reads every sequence once in each pass, shuffled as recorded runs were', () => {
    const total = Math.floor(1000 / 16) + Math.floor(516 / 16) + Math.floor(769 / 16);
    const all = steps(sizes, 8, 1, 1).flat();
    expect(new Set(all.slice(0, total)).size).toBe(total);
    for (const [epoch, seed] of [42, (42 + 0x9e3779b1) % 2 ** 32].entries()) {
      const indices = identityPermutation(total);
      new MersenneTwister(seed).shuffle(indices);
      const places = [...indices].map((at) =>
        at < 62 ? `0:${16 * at}` : at < 94 ? `1:${16 * (at - 62)}` : `2:${16 * (at - 94)}`,
      );
      expect(all.slice(epoch * total, epoch * total + total)).toEqual(places);
    }
  });

  it('a keyed position gives what would have followed; one of a stored permutation keeps its kind', () => {
    const { places } = walk(sequenceOrder(large), 30);
    const { position } = walk(sequenceOrder(large), 10);
    expect(position).toEqual({ epoch: 0, shard: 1, sample: 20 });
    const other = sequenceOrder(large);
    expect(other.holds(position)).toBe(true);
    expect(walk(other, 20, position).places).toEqual(places.slice(10));
    // As runs saved it before there were keyed permutations.
    const before = { epoch: 0, shard: 0, sample: 20 };
    expect([other.holds(before), other.next(before)]).toEqual([true, { ...before, sample: 22 }]);
  });

  it.each([
    ['4 million sequences in two passes', 16, 4_000_000],
    ['20 million sequences', 0, 20_000_000],
  ])('%s take %i MB', (_, megabytes, sequences) => {
    const order = sequenceOrder({ ...sizes, shardTokens: [16 * sequences + 1] });
    const before = process.memoryUsage().arrayBuffers;
    order.extents(startPosition);
    order.extents({ ...order.next(startPosition), sample: sequences - 1 });
    expect((process.memoryUsage().arrayBuffers - before) / 1e6).toBeCloseTo(megabytes, -1);
  });
});
