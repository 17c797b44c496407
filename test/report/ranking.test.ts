// Ties in a ranking and in a list of runs, and which runs' losses cannot be compared. Their text: ../commands/compare.test.ts.
import { expect, it } from 'vitest';
import type { NamedRun } from '../../src/report/compare/pairs.ts';
import { unlike } from '../../src/report/measured.ts';
import { behind, rankRuns, withTies } from '../../src/report/ranking.ts';
import type { RunEvent } from '../../src/runs/schema.ts';
import { configuration, runEvent } from '../runs/run-log.ts';

/** Losses of 80 sequences that differ by far more than the runs do: the error of an unpaired mean is 0.08. */
const spread = Array.from({ length: 80 }, (_, index) => 4 + Math.sin(index));
/** Higher by `by`, and by +0.1 or -0.1 for each sequence: the error of the mean difference is 0.0113. */
const shifted = (by: number) => spread.map((loss, index) => loss + by + 0.1 * (-1) ** index);

function run(sequenceLosses: number[] | undefined, other: object = {}, tokens = 5120, data?: object): NamedRun {
  const loss = (sequenceLosses ?? [5]).reduce((sum, one, _, { length }) => sum + one / length, 0);
  const val = { event: 'val', step: 400, loss, tokens, ...(sequenceLosses && { sequenceLosses }) } as const;
  const done = { event: 'done', steps: 400, seconds: 1, weights: 'x' } as const;
  const events: RunEvent[] = [{ ...runEvent(other), ...(data && { data }) }, val, done];
  const series = { train: [], val: [[400, loss] as const], norm: [], lr: [] };
  return { name: 'a', folder: JSON.stringify(other), configuration: { ...configuration, ...other }, events, series };
}

it.each<[string, NamedRun, boolean | undefined]>([
  ['a difference under twice its error', run(shifted(0.022)), true],
  ['over twice its error, far under the error of the losses', run(shifted(0.023)), false],
  ['the same losses', run([...spread]), true],
  ['losses that differ by rounding, all in one direction', run(spread.map((loss) => loss + 1e-6)), true],
  ['and by a digit that is printed', run(spread.map((loss) => loss + 1e-4)), false],
  ['another number of tokens', run(shifted(0.02), {}, 6_400_000), undefined],
  ['no losses of sequences, in an older log', run(undefined), undefined],
  ['another number of sequences', run(spread.slice(1)), undefined],
  ['other sequences', run(shifted(0), { sequence: 128 }), undefined],
  ['a loss that is not finite', run([Number.NaN, ...spread.slice(1)]), undefined],
])('a tie or not: %s', (_, other, isTie) => expect(behind(other, run(spread))?.isTie).toBe(isTie));

it('the error of 100,000 sequences is that of all, though a log lists fewer', () => {
  const found = behind(run(shifted(0.02), {}, 6_400_000), run(spread, {}, 6_400_000))!;
  expect(found.standardError).toBeCloseTo(0.1 / Math.sqrt(100_000), 4);
});

it('a sweep over the batch: ties, if the sequences do not depend on the batch', () => {
  const losses = [shifted(0.5), shifted(0.001), spread];
  const sweep = (validation: object) =>
    losses.map((each, index) => run(each, { batch: [16, 1, 4][index], ...validation }));
  const runs = sweep({ valSteps: undefined, valTokens: 5120 });
  const { ranking, notes } = rankRuns(runs);
  expect(ranking.map(({ options, behind }) => [options.batch, behind?.isTie])).toEqual([[4, undefined], [1, true], [16, false]]); // biome-ignore format: one line
  expect(notes).toEqual([expect.stringMatching(/^tie: /)]);
  const byBatches = rankRuns(sweep({ valSteps: 20 }));
  expect(byBatches.ranking.map(({ behind }) => behind)).toEqual([null, null, null]);
  expect(byBatches.notes).toEqual(['not all runs validated the same tokens']);
});

it('runs are ranked within each data set, each behind the least of the same sequences', () => {
  const named = (name: string, one: NamedRun, bytes?: number) => {
    if (bytes) Object.assign(one.events[1]!, { bytes });
    return { ...one, name };
  };
  const small = { vocabularySize: 65 };
  const runs = [
    named('batches', run(shifted(0.1), { ...small, valSteps: 2 }, 128)),
    named('bad', run([Number.NaN])),
    named('letters 2', run(shifted(0.5), small), 25_600),
    named('words 1', run(shifted(-1)), 2560),
    named('letters 1', run(spread, small), 25_600),
    named('words 2', run(spread), 2560),
  ];
  const wanted = ['letters 1', 'batches', 'letters 2', 'words 1', 'words 2', 'bad'];
  const { title, ranking, notes } = rankRuns(runs);
  expect(notes[0]).toMatch(/^tie: .*; seeds can differ by more$/);
  expect(ranking.map(({ name }) => name)).toEqual(wanted);
  expect(title).toMatch(/^Ranking by last validation loss within each data set: losses .* cannot be compared/);
  const listed = withTies(runs.map((one) => ({ run: one.name, validated: one }) as never)).runs;
  expect(listed.map(({ run }) => run)).toEqual(wanted);
  for (const list of [ranking, listed]) {
    expect(list.map(({ behind }) => behind?.isTie)).toEqual([undefined, undefined, false, undefined, false, undefined]);
  }
  const alone = [runs[1]!, run([Number.NaN], small)];
  expect(rankRuns(alone).title).toMatch(/^Ranking by last validation loss: /);
});

const [both, none] = [{ otherText: ['train', 'val'] }, { leftOut: [] }];
const val = { otherText: [], leftOut: ['val'] };
const plain = run(spread);
const hashed = run(spread, {}, 5120, { train: 'a', val: 'v' });
it.each<[string, Parameters<typeof unlike>[0], NamedRun, object]>([
  ['other data by name', run(spread, { data: 'data/mine' }), plain, both],
  ['data of one name in other folders', run(spread, { data: 'x/tinyshakespeare' }), plain, none],
  ['other vocabularies', run(spread, { vocabularySize: 65 }), plain, both],
  ['data prepared again', run(spread, {}, 5120, { train: 'b', val: 'w' }), hashed, both],
  ['other training data', run(spread, { data: 'x' }, 5120, { train: 'b', val: 'v' }), hashed, { leftOut: ['train'] }],
  ['a copy of the data', run(spread, { data: 'x' }, 5120, { train: 'a', val: 'v' }), hashed, none],
  ['batches of other rows', run(spread, { batch: 8 }), plain, val],
  ['batches of as many rows by ranks', run(spread, { batch: 2, ranks: 2 }), plain, none],
  ['a reference of other batches', { configuration: { batch: 4, valSteps: 7 } }, plain, val],
  ['a reference that does not say', { configuration: { batch: 4 } }, plain, none],
  ['of batches', { configuration: { valSteps: 20 } }, run(spread, { valSteps: undefined, valTokens: 5120 }), val],
])('losses that cannot be compared: %s', (_, one, other, expected) => {
  expect(unlike(one, other)).toMatchObject(expected);
  expect(unlike(other, one)).toEqual(unlike(one, other));
});
