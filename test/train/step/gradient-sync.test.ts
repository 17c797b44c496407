// Checks the order in which a step of several ranks enqueues collectives, in one process with a communicator that records calls.
import { describe, expect, it, vi } from 'vitest';
import { AdamW, createModel, Device, initializeWeights, Trainer } from '../../../src/index.ts';
import { type Architecture, parts } from '../../../src/model/architecture.ts';
import { arenaLayout } from '../../../src/model/arena.ts';
import { Sharding } from '../../../src/model/sharded-parameters.ts';
import type { Communicator } from '../../../src/native/communicator.ts';

const [B, T] = [1, 8];
const batch = { inputs: new Int32Array(B * T), targets: new Int32Array(B * T) };
/** Notes beside the ops that are done: marks of where forward and backward are. */
const marks = ['embeddingForward', 'attentionForward', 'classifier', 'attentionBackward', 'embeddingBackward', 'adamw'];

interface Case {
  readonly layers: number;
  readonly head: Architecture['head'];
  readonly accumulation: number;
}

interface Call {
  readonly name: string;
  readonly event: unknown;
}

/** The calls of the third of three steps. */
async function callsOfStep({ layers, head, accumulation }: Case, options: { zero: 0 | 1; overlapsBackward: boolean }) {
  using device = Device.open({ kind: 'cpu', accumulates: accumulation > 1 });
  const config = { layers, channels: 32, heads: 2, context: T, vocabularySize: 50, head };
  const communicator = { device, rank: 0, ranks: 2, parts: 2, handle: 1n, share() {} } as unknown as Communicator;
  let calls: Call[] = [];
  const call = device.call.bind(device);
  // Calls that are left out could not be repeated.
  vi.spyOn(device, 'program').mockImplementation((run) => ({ run }));
  vi.spyOn(device, 'call').mockImplementation((name, args) => {
    const isRanks = /^(collectives|allReduce|reduceScatter|allGather|globalNorm)/.test(name);
    if (isRanks || name === 'eventWait' || marks.includes(name)) {
      calls.push({ name, event: (args as { event?: unknown }).event });
    }
    if (!isRanks) call(name, args);
  });
  const sharding = options.zero === 1 ? new Sharding(communicator, config) : undefined;
  const model = createModel(device, config, { B, T, purpose: 'training' }, sharding);
  initializeWeights(model, 1);
  const { overlapsBackward } = options;
  const given = { optimizer: new AdamW({ weightDecay: 0 }), gradientClip: 1, overlapsBackward };
  const trainer = new Trainer(model, { batch: B, sequence: T, accumulation, ...given }, communicator);
  for (let step = 0; step < 3; step++) {
    calls = [];
    await (await trainer.begin(step, 1e-3, () => batch)).finished();
  }
  const layout = arenaLayout(config, { shares: 2 });
  const names = calls.map(({ name }) => name);
  const group = names.slice(names.indexOf('collectivesGroupBegin') + 1, names.indexOf('collectivesGroupEnd'));
  return { calls, names, group, buckets: layout.buckets.length, together: layout.bucketOfLayer.lastIndexOf(1) + 1 };
}

const grid = [1, 2, 6, 7, 13].flatMap((layers) =>
  parts.head.flatMap((head) => [1, 2].map((accumulation): Case => ({ layers, head, accumulation }))),
);

it.each(grid)('weights return bucket by bucket, each waited for by its layers: %o', async (given) => {
  const { calls, names, buckets, together } = await callsOfStep(given, { zero: 1, overlapsBackward: false });
  const recorded = calls.filter(({ name }) => name === 'collectivesRecord').map(({ event }) => event);
  const waited = calls.filter(({ name }) => name === 'eventWait').map(({ event }) => event);
  expect(new Set(recorded).size).toBe(buckets);
  // Each once, the last too: a recording cannot end before.
  expect(waited).toEqual(recorded);
  // AdamW of the vectors, then of each bucket, gathered and marked.
  const update = ['adamw', ...recorded.flatMap(() => ['adamw', 'allGather', 'collectivesRecord'])];
  expect(names.slice(0, update.length)).toEqual(update);
  const place = (name: string, nth: number) => calls.flatMap((each, at) => (each.name === name ? [at] : []))[nth]!;
  expect(place('eventWait', 0)).toBeLessThan(place('embeddingForward', 0));
  const { layers, head } = given;
  for (let layer = 0; layer < layers; layer++) {
    expect(place('eventWait', Math.floor(layer / together) + 1)).toBeLessThan(place('attentionForward', layer));
  }
  if (head === 'untied') {
    const last = recorded.length - 1;
    expect(place('eventWait', last)).toBeGreaterThan(place('attentionForward', layers - 1));
    expect(place('eventWait', last)).toBeLessThan(place('classifier', 0));
  }
});

describe.each([0, 1] as const)('ZeRO %i', (zero) => {
  const sum = zero === 1 ? 'reduceScatter' : 'allReduce';

  it.each(grid)('gradients go together behind the last backward: %o', async (given) => {
    const { names, group, buckets } = await callsOfStep(given, { zero, overlapsBackward: false });
    // And the vectors, and the loss with the wish to stop.
    expect(group).toEqual([...Array(buckets).fill(sum), 'allReduce', 'allReduce']);
    expect(names.lastIndexOf('embeddingBackward')).toBe(names.indexOf('collectivesGroupBegin') - 1);
    expect(names[names.indexOf('collectivesGroupEnd') + 1]).toBe('collectivesJoin');
    expect(names.filter((name) => name === 'reduceScatter').length).toBe(zero === 1 ? buckets : 0);
  });

  it.each(grid)('or each as soon as it is whole: %o', async (given) => {
    const { names, group, buckets, together } = await callsOfStep(given, { zero, overlapsBackward: true });
    const backward = names.slice(names.lastIndexOf('classifier') + 1, names.lastIndexOf('collectivesGroupBegin') + 1);
    const { layers, head } = given;
    const wanted = Array.from({ length: layers }, (_, index) => layers - 1 - index).flatMap((layer) => [
      'attentionBackward',
      // The head's own bucket was complete before, and goes with the first of the layers.
      ...(head === 'untied' && layer === layers - 1 ? [sum] : []),
      ...(layer % together === 0 ? [sum] : []),
    ]);
    expect(backward).toEqual([...wanted, 'embeddingBackward', 'collectivesGroupBegin']);
    expect(group).toEqual([sum, 'allReduce', 'allReduce']);
    expect(wanted.filter((name) => name === sum).length).toBe(buckets - 1);
  });
});
