// How an arena is cut for ranks: every bucket into equal parts on whole alignments, nothing lost, nothing twice. That ranks put
// it together again is shown by their runs (test/end-to-end/ranks.test.ts, test/optimizer/second-optimizer.test.ts).
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type ModelConfig, type Parameter, parameterTable, presetConfig, type Tensor } from '../../src/index.ts';
import { arenaLayout, bucketOf, type Division, matricesIn, type Selection, undivided } from '../../src/model/arena.ts';
import { elementCount } from '../../src/native/element-types.ts';

const preset = (name: string): ModelConfig => presetConfig(name)!;
const isOfLayer: Selection = ({ kind, name }) => kind === 'matrix' && name.startsWith('h.');
const sizes = fc.record({
  layers: fc.integer({ min: 1, max: 20 }),
  channels: fc.integer({ min: 1, max: 70 }),
  heads: fc.constant(1),
  context: fc.integer({ min: 1, max: 100 }),
  vocabularySize: fc.integer({ min: 1, max: 300 }),
});

/** Layers of the first bucket that has any. */
const layersTogether = ({ bucketOfLayer }: ReturnType<typeof arenaLayout>): number => bucketOfLayer.lastIndexOf(1) + 1;

/** Checks a layout, and gives its buckets with their parameters in the order of memory. */
function checked(config: ModelConfig, division: Division) {
  const layout = arenaLayout(config, division);
  const { starts, buckets, sizes } = layout;
  expect(buckets.length).toBe(Math.ceil(config.layers / layersTogether(layout)) + 1);
  const placed = parameterTable(config).map((parameter) => {
    const start = starts.get(parameter.name)!;
    return { ...parameter, start, end: start + elementCount(parameter.shape) };
  });
  const matrices = placed.filter(({ kind }) => kind === 'matrix');
  let end = 0;
  const held = buckets.map(({ start, count }, index) => {
    expect(start).toBe(end);
    expect(count % (32 * division.shares)).toBe(0);
    end = start + count;
    const parameters = matrices
      .filter(({ name }) => bucketOf(layout, name) === index)
      .toSorted((a, b) => a.start - b.start);
    for (const [place, parameter] of parameters.entries()) {
      expect(parameter.start % 32).toBe(0);
      expect(parameter.start).toBeGreaterThanOrEqual(place > 0 ? parameters[place - 1]!.end : start);
    }
    expect(parameters.at(-1)!.end).toBeLessThanOrEqual(end);
    return { start, count, share: count / division.shares, parameters };
  });
  expect(end).toBe(sizes.matrix);
  return held;
}

it('cuts any model for any number of ranks', () => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 1, max: 9 }), (config, shares) => {
      for (const { start, count, parameters } of checked(config, { shares })) {
        expect(start + count - parameters.at(-1)!.end).toBeLessThan(32 + 32 * shares);
      }
    }),
  );
});

const whole: Record<string, Selection> = {
  'matrices of layers': isOfLayer,
  'all matrices': () => true,
  'one matrix of each layer': ({ name }) => name.endsWith('.fcw'),
  'the matrices of one layer': ({ name }) => name.startsWith('h.0.'),
};

it.each(Object.entries(whole))('keeps whole, for any number of ranks: %s', (_, whole) => {
  fc.assert(
    fc.property(sizes, fc.integer({ min: 2, max: 9 }), (config, shares) => {
      for (const { start, share, parameters } of checked(config, { shares, whole })) {
        const shareOf = (element: number) => Math.floor((element - start) / share);
        const isDivided = ({ start, end }: { start: number; end: number }) => shareOf(start) !== shareOf(end - 1);
        if (parameters.some(whole)) expect(parameters.filter(isDivided)).toEqual([]);
        // Largest first, each where the share is emptiest: the longest exceeds the mean by less than the largest parameter.
        const rooms = parameters.map(({ start, end }) => 32 * Math.ceil((end - start) / 32));
        const used = rooms.reduce((sum, room) => sum + room, 0);
        expect(share).toBeLessThan(used / shares + Math.max(...rooms) + 32);
      }
    }),
  );
});

it('divides nothing else differently, and one rank has the order of the table', () => {
  const config = preset('d12');
  expect(arenaLayout(config, { shares: 1, whole: isOfLayer })).toEqual(arenaLayout(config));
  expect(arenaLayout(config, { shares: 8, whole: () => false })).toEqual(arenaLayout(config, { shares: 8 }));
  const [plain, divided] = [arenaLayout(config, { shares: 8 }), arenaLayout(config, { shares: 8, whole: isOfLayer })];
  expect(divided.buckets[0]).toEqual(plain.buckets[0]);
  for (const { name, kind } of parameterTable(config)) {
    if (kind === 'matrix' && name.startsWith('h.')) continue;
    expect(divided.starts.get(name), name).toBe(plain.starts.get(name));
  }
});

it('places state that only some layers have as their weights', () => {
  const config = preset('d12');
  const division = { shares: 8, whole: isOfLayer };
  const weights = arenaLayout(config, division);
  // Layers 4 and 5, and so the third bucket.
  const state = arenaLayout(config, division, ({ name }) => name.startsWith('h.4.'));
  const [{ start }, { start: wanted, count }] = [state.buckets[3]!, weights.buckets[3]!];
  expect(state.sizes).toEqual({ matrix: count, vector: weights.sizes.vector });
  for (const { name } of parameterTable(config).filter((each) => isOfLayer(each) && /^h\.[45]\./.test(each.name))) {
    expect(state.starts.get(name)! - start, name).toBe(weights.starts.get(name)! - wanted);
  }
});

it('gives the matrices of a bucket by their places in an undivided copy, whose buckets are smaller', () => {
  const config = preset('d24');
  const table = parameterTable(config);
  const ofOne: Selection = ({ name, kind }) => kind === 'matrix' && name.startsWith('h.5.');
  const layout = arenaLayout(config, { shares: 4, whole: isOfLayer }, ofOne);
  const wholeLayout = arenaLayout(config, undivided, ofOne);
  const [held] = layout.buckets.filter(({ count }) => count > 0);
  const tensor = { count: held!.count, view: (shape: number[], at: number) => ({ shape, at }) } as unknown as Tensor;
  const found = [...matricesIn({ layout, wholeLayout }, table, tensor, held!.start)];
  // Layers 4 to 7 are in the bucket.
  const wanted = table.filter(ofOne).map(({ name, kind, shape }) => {
    const at = layout.starts.get(name)! - held!.start;
    return { kind, start: wholeLayout.starts.get(name), tensor: { shape, at } };
  });
  expect(layout.starts.has('h.4.qkvw')).toBe(true);
  expect(found).toEqual(wanted);
});

it('takes two layers of GPT-2 124M together, and one of larger models; if matrices stay whole, a sixth of the layers', () => {
  const together = (division?: Division) =>
    ['d6', 'd12', 'd24', 'd36', 'd48'].map((name) => layersTogether(arenaLayout(preset(name), division)));
  expect(together()).toEqual([1, 2, 1, 1, 1]);
  expect(together({ shares: 2 })).toEqual(together());
  expect(together({ shares: 2, whole: isOfLayer })).toEqual([1, 2, 4, 6, 8]);
});

it("needs no room for the presets' parts on 2, 4 or 8 ranks", () => {
  for (const name of ['d6', 'd12', 'd24', 'd36', 'd48']) {
    const config = preset(name);
    for (const shares of [2, 4, 8]) expect(arenaLayout(config, { shares })).toEqual(arenaLayout(config));
  }
});

/** Multiplications of one step of Newton-Schulz on a matrix of C columns or rows, in C^3: X X', its square, and the product with X. */
const workOf = ({ shape, matrices }: Parameter): number => {
  const [long, short] = [Math.max(...shape) / matrices, Math.min(...shape)];
  return matrices * (2 * (long / short) + 1);
};

/** Padding of the layers' buckets, and how much more the busiest rank computes than the mean, in percent. */
function imbalance(name: string, shares: number): { padding: number; work: number } {
  const work = new Array<number>(shares).fill(0);
  let [used, held] = [0, 0];
  for (const { start, count, share, parameters } of checked(preset(name), { shares, whole: isOfLayer }).slice(1)) {
    held += count;
    for (const parameter of parameters) {
      used += parameter.end - parameter.start;
      work[Math.floor((parameter.start - start) / share)]! += workOf(parameter);
    }
  }
  const mean = work.reduce((sum, each) => sum + each, 0) / shares;
  const percent = (ratio: number) => Math.round(1000 * (ratio - 1)) / 10;
  return { padding: percent(held / used), work: percent(Math.max(...work) / mean) };
}

it("balances the presets' layers between ranks", () => {
  const names = ['d12', 'd24', 'd36', 'd48'];
  const found = names.flatMap((name) => [2, 3, 4, 8].map((shares) => ({ name, shares, ...imbalance(name, shares) })));
  console.log(found.map((row) => JSON.stringify(row)).join('\n'));
  const [padding, work] = (['padding', 'work'] as const).map((column) =>
    Object.fromEntries(names.map((name) => [name, found.filter((row) => row.name === name).map((row) => row[column])])),
  );
  expect(padding).toEqual({ d12: [0, 0, 16.7, 33.3], d24: [0, 0, 0, 16.7], d36: [0, 0, 0, 11.1], d48: [0, 0, 0, 0] });
  // Query, key and value take less work per element than the matrices of the MLP.
  expect(work).toEqual({ d12: [0, 5, 0, 6.7], d24: [0, 5, 0, 0], d36: [0, 0, 0, 6.7], d48: [0, 1.2, 0, 0] });
});

/** The layouts that AdamW's runs had before matrices could stay whole: sizes and a hash, by ranks. */
const recorded: [config: string | ModelConfig, shares: number[], all: string, layers: string][] = [
  ['d6', [1, 2, 3, 8], '30326784 86e11f3507078642', '10616832 c629be236fb34cca'],
  ['d12', [1, 2, 3, 8], '124354560 dd4a4e865361b7ab', '84934656 89c4dbbb55b98dc5'],
  ['d24', [1, 2, 8], '354549760 a26c7aa314879f12', '301989888 316809d58fd08bc6'],
  ['d24', [3], '354549792 c7f6ab40c25ca03d', '301989888 316809d58fd08bc6'],
  ['d48', [1, 2, 8], '1556684800 0c7a2909f3da280d', '1474560000 4a10a1bd984b16e2'],
  ['d48', [3], '1556684832 94340b61a5124993', '1474560000 4a10a1bd984b16e2'],
];
const odd: ModelConfig = { layers: 7, channels: 33, heads: 1, context: 19, vocabularySize: 61 };
recorded.push(
  [odd, [1, 2], '97152 2edf5ca2c20b84e5', '92288 c463783ff974e2ca'],
  [odd, [3], '97344 318f97636207e132', '92448 3d3abb01105d6aff'],
  [odd, [8], '97280 c92dc7ec663ac446', '92416 421ff8f4b34c6ae6'],
);

it.each(recorded)('keeps the recorded layout of %o for ranks %o', (model, ranks, all, layers) => {
  const config = typeof model === 'string' ? preset(model) : model;
  const described = (shares: number, selected?: Selection) => {
    const { starts, buckets, sizes } = arenaLayout(config, { shares }, selected);
    const byName = [...starts].sort(([a], [b]) => (a < b ? -1 : 1));
    const facts = { starts: byName, buckets: buckets.map(({ start, count }) => [start, count]), sizes };
    return `${sizes.matrix} ${createHash('sha256').update(JSON.stringify(facts)).digest('hex').slice(0, 16)}`;
  };
  for (const shares of ranks) {
    expect(described(shares), `${shares} ranks`).toBe(all);
    expect(described(shares, isOfLayer), `${shares} ranks`).toBe(layers);
  }
});
