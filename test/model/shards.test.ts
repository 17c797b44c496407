// How an arena is cut for ranks: every bucket into equal parts on whole alignments, nothing lost, nothing twice. That ranks put
// it together again is shown by their runs (test/end-to-end/ranks.test.ts).
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { arenaLayout, bucketOf, layersInBucket } from '../../src/model/arena.ts';
import { presetConfig } from '../../src/model/config.ts';
import { parameterTable } from '../../src/model/parameters.ts';

it('cuts any model for any number of ranks', () => {
  const sizes = fc.record({
    layers: fc.integer({ min: 1, max: 20 }),
    channels: fc.integer({ min: 1, max: 70 }),
    heads: fc.constant(1),
    context: fc.integer({ min: 1, max: 100 }),
    vocabularySize: fc.integer({ min: 1, max: 300 }),
  });
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 9 }), (config, shares) => {
      const { starts, buckets, sizes } = arenaLayout(config, shares);
      expect(buckets.length).toBe(Math.ceil(config.layers / layersInBucket(config)) + 1);
      let end = 0;
      for (const { start, count, used } of buckets) {
        expect(start).toBe(end);
        expect(count % (32 * shares)).toBe(0);
        expect(count - used).toBeGreaterThanOrEqual(0);
        expect(count - used).toBeLessThan(32 * shares);
        end = start + count;
      }
      expect(end).toBe(sizes.matrix);
      for (const { name, kind, shape } of parameterTable(config)) {
        if (kind === 'vector') continue;
        const { start, used } = buckets[bucketOf(config, name)]!;
        const count = shape.reduce((product, size) => product * size, 1);
        expect(starts.get(name)).toBeGreaterThanOrEqual(start);
        expect(starts.get(name)! + count).toBeLessThanOrEqual(start + used);
      }
    }),
  );
});

it('takes two layers of GPT-2 124M together, and one of larger models', () => {
  const together = ['d6', 'd12', 'd24', 'd48'].map((name) => layersInBucket(presetConfig(name)!));
  expect(together).toEqual([1, 2, 1, 1]);
});

it("needs no room for the presets' parts on 2, 4 or 8 ranks", () => {
  for (const name of ['d6', 'd12', 'd24', 'd36', 'd48']) {
    const config = presetConfig(name)!;
    for (const ranks of [2, 4, 8]) expect(arenaLayout(config, ranks)).toEqual(arenaLayout(config));
  }
});
