// Ties in a ranking and in a list of runs, and which runs' losses cannot be compared. Their text: ../commands/compare.test.ts.
import { expect, it } from 'vitest';
import type { NamedRun } from '../../src/compare/pairs.ts';
import { behind, rankRuns } from '../../src/report/ranking.ts';
import { withTies } from '../../src/report/run-summary.ts';
import { unlike } from '../../src/runs/measured.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { configuration, runEvent } from '../runs/run-log.ts';

type Val = Extract<RunEvent, { event: 'val' }>;

/** Losses of 80 sequences that differ by far more than the runs do. */
const spread = Array.from({ length: 80 }, (_, index) => 4 + Math.sin(index));
const mean = (losses: readonly number[]) => losses.reduce((sum, one) => sum + one, 0) / losses.length;
/** By `by` on average; with noise of a standard deviation of about 0.1 for each sequence. */
const shifted = (by: number, noise = 0.1) => {
  const apart = spread.map((_, index) => Math.SQRT2 * Math.cos(1 + 7 * index));
  return spread.map((loss, index) => loss + by + noise * (apart[index]! - mean(apart)));
};

function run(
  sequenceLosses: number[] | undefined,
  changes: object = {},
  last: Partial<Val> = {},
  data?: object,
): NamedRun {
  const options = { ...configuration, ...changes };
  const loss = last.loss ?? mean(sequenceLosses ?? [5]);
  const val = {
    event: 'val',
    step: 400,
    loss,
    tokens: 5120,
    ...(sequenceLosses && { sequenceLosses }),
    ...last,
  } as Val;
  const done = { event: 'done', steps: 400, seconds: 1, weights: 'x' } as const;
  const name = JSON.stringify(changes);
  const series = { train: [], val: [[400, loss] as const], norm: [], lr: [] };
  const events: RunEvent[] = [{ ...runEvent(changes), ...(data && { data }) }, val, done];
  return { name, folder: name, configuration: options, events, series };
}

// The error of the mean of 80 differences of standard deviation 0.1 is 0.0112; that of unpaired losses 0.11.
const best = run(spread);
it.each<[string, NamedRun, object | null]>([
  ['a difference under twice its error', run(shifted(0.02)), { isTie: true }],
  ['a difference over twice its error, far under the error of the losses', run(shifted(0.025)), { isTie: false }],
  ['the same losses', run([...spread]), { difference: 0, isTie: true }],
  ['another number of tokens', run(shifted(0.02), {}, { tokens: 6_400_000 }), null],
  ['no losses of sequences, in an older log', run(undefined), null],
  ['another number of sequences', run(spread.slice(1)), null],
  ['other sequences', run(shifted(0), { sequence: 128 }), null],
  ['a loss that is not finite', run([Number.NaN, ...spread.slice(1)]), null],
])('%s', (_, other, expected) => {
  const found = behind(other, best);
  if (expected) expect(found).toMatchObject(expected);
  else expect(found).toBeNull();
});

it('the error of 100,000 sequences is that of all, though a log lists fewer', () => {
  const tokens = { tokens: 6_400_000 };
  const found = behind(run(shifted(0.02), {}, tokens), run(spread, {}, tokens))!;
  expect(found.standardError).toBeCloseTo(0.1 / Math.sqrt(100_000), 4);
  expect(found.isTie).toBe(false);
});

it('a sweep over the batch: ties in ranking and list', () => {
  const runs = [run(shifted(0.5), { batch: 16 }), run(shifted(0.001), { batch: 1 }), run(spread, { batch: 4 })];
  // Sequences spread over the set do not depend on the batch.
  for (const { configuration: options } of runs) Object.assign(options, { valSteps: undefined, valTokens: 5120 });
  const { ranking, notes } = rankRuns(runs);
  expect(ranking.map(({ options, behind }) => [options.batch, behind?.isTie])).toEqual([
    [4, undefined],
    [1, true],
    [16, false],
  ]);
  expect(notes).toEqual([expect.stringMatching(/^tie: /)]);
  const listed = withTies(runs.map((one) => ({ run: one.name, val: one.series.val[0]![1], validated: one }) as never));
  expect(listed.map(({ behind }) => behind?.isTie)).toEqual([false, true, undefined]);
  // Batches from its start do.
  for (const { configuration: options } of runs) Object.assign(options, { valSteps: 20 });
  const { ranking: none, notes: why } = rankRuns(runs);
  expect(none.map(({ behind }) => behind)).toEqual([null, null, null]);
  expect(why).toEqual(['not all runs validated the same tokens']);
});

const hashes = (train: string, val = 'v') => ({ train, val });
it.each<[string, NamedRun, NamedRun | object, object]>([
  ['data by name', run(spread), run(spread, { data: 'data/mine' }), { otherText: ['train', 'val'] }],
  ['data of one name in other folders', run(spread), run(spread, { data: 'x/tinyshakespeare' }), { leftOut: [] }],
  ['vocabularies', run(spread), run(spread, { vocabularySize: 65 }), { otherText: ['train', 'val'] }],
  [
    'prepared again',
    run(spread, {}, {}, hashes('a')),
    run(spread, {}, {}, hashes('b', 'w')),
    { otherText: ['train', 'val'] },
  ],
  [
    'one validation',
    run(spread, {}, {}, hashes('a')),
    run(spread, { data: 'x' }, {}, hashes('b')),
    { leftOut: ['train'] },
  ],
  ['a copy', run(spread, {}, {}, hashes('a')), run(spread, { data: 'x' }, {}, hashes('a')), { leftOut: [] }],
  ['batches', run(spread), run(spread, { batch: 8 }), { otherText: [], leftOut: ['val'] }],
  ['batches by ranks', run(spread), run(spread, { batch: 2, ranks: 2 }), { leftOut: [] }],
  ['steps', run(spread), { configuration: { batch: 4, valSteps: 7 } }, { otherText: [], leftOut: ['val'] }],
  ['a reference without steps', run(spread), { configuration: { batch: 4 } }, { leftOut: [] }],
  [
    'tokens',
    run(spread, { valSteps: undefined, valTokens: 5120 }),
    { configuration: { valSteps: 20 } },
    { leftOut: ['val'] },
  ],
])('losses that cannot be compared: %s', (_, one, other, expected) => {
  expect(unlike(one, other)).toMatchObject(expected);
  expect(unlike(other, one)).toEqual(unlike(one, other));
});
