// Runs of several ranks from the command line, on the CPU: the figures of one rank with accumulation, and the same bits at every
// run. Checkpoints that move between numbers of ranks: test/train/runs.slow.test.ts. What goes wrong with ranks is in rank-failures.test.ts.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { rankLogPath } from '../../src/runs/paths.ts';
import { readRun, type Series } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { windowedFlags } from '../support/modern-models.ts';
import { randomQuestions } from '../support/questions.ts';
import { rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';

const place = workplace();
beforeAll(() => {
  rankData(place);
});

const long = [...sharedSteps, ...'--steps 16 --val-every 4'.split(' ')];

/** Trains with ranks in processes, one rank in this one. */
const run = async (args: readonly string[]) =>
  place[/--gpus [23]/.test(args.join(' ')) ? 'ok' : 'okHere'](['train', ...tinyRanks, ...args]);
const series = (out: string) => readRun(place.path(out)).series;
const furthest = (a: Series, b: Series): number => {
  expect(a.map(([step]) => step)).toEqual(b.map(([step]) => step));
  return Math.max(...a.map(([, value], index) => Math.abs(value - b[index]![1])));
};

describe('figures', () => {
  // In llm.c's validation a batch is one of each rank: as many tokens in fewer batches.
  const validation = (ranks: number, zero: number) => (zero === 0 ? ['--val-steps', String(12 / ranks)] : []);
  beforeAll(async () => {
    for (const zero of [0, 1]) await run([...long, '--out', `one-${zero}`, ...validation(1, zero)]);
  });

  it.each([
    [2, 1, '--overlap on'],
    [2, 0, '--overlap on'],
    [3, 1, '--overlap off'],
    [3, 0, '--overlap off'],
  ])('%i ranks, ZeRO %i: those of one with accumulation, and the same bits again %s', async (ranks, zero, again) => {
    const given = [...long, '--gpus', String(ranks), '--zero', String(zero), ...validation(ranks, zero)];
    const { stdout } = await run([...given, '--out', `${ranks}-${zero}`]);
    expect(stdout).toContain(`${ranks} ranks on this machine`);
    const [alone, together] = [series(`one-${zero}`), series(`${ranks}-${zero}`)];
    expect(together.train.length).toBe(16);
    expect(furthest(alone.train, together.train)).toBeLessThan(1e-5);
    expect(furthest(alone.norm, together.norm)).toBeLessThan(1e-5);
    // Before the first update it is the same sum of the same numbers.
    expect(together.val[0]).toEqual(alone.val[0]);
    expect(furthest(alone.val, together.val)).toBeLessThan(1e-5);
    // The other ranks' own logs have the same losses.
    const own = readFileSync(rankLogPath(place.path(`${ranks}-${zero}`), ranks - 1), 'utf8');
    expect(own).toContain(`"loss":${together.train.at(-1)![1]}`);

    await run([...given, ...again.split(' '), '--out', `${ranks}-${zero}-again`]);
    expect(figuresOf(place.path(`${ranks}-${zero}-again`))).toEqual(figuresOf(place.path(`${ranks}-${zero}`)));
    const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
    expect(files(`${ranks}-${zero}-again`)).toEqual(files(`${ranks}-${zero}`));
  });
});

it('two ranks of a model with windows have the figures of one, and the same bits again', async () => {
  const given = [...sharedSteps, ...windowedFlags.replace('--document-mask ', '').split(' '), '--steps', '12'];
  for (const [out, ranks] of [
    ['alone', 1],
    ['both', 2],
    ['again', 2],
  ] as const) {
    await run([...given, '--val-every', '6', '--gpus', String(ranks), '--out', `windowed-${out}`]);
  }
  expect(figuresOf(place.path('windowed-again'))).toEqual(figuresOf(place.path('windowed-both')));
  const [alone, both] = [series('windowed-alone'), series('windowed-both')];
  expect(furthest(alone.train, both.train)).toBeLessThan(1e-5);
  expect(furthest(alone.val, both.val)).toBeLessThan(1e-5);
});

it("in llm.c's order and bf16 a run resumes bit for bit, ranks at other shards, and only with as many", async () => {
  const given =
    '--layers 1 --order llmc --batch 2 --total-batch 128 --steps 60 --lr 1e-3 --val-every 0 --gpus 2 --dtype bf16';
  await run([...given.split(' '), '--out', 'llmc']);
  await run([...given.split(' '), '--out', 'llmc-stopped', '--save-every', '37', '--stop-after', '37']);
  place.ok('train --out llmc-stopped --resume');
  expect(figuresOf(place.path('llmc-stopped'))).toEqual(figuresOf(place.path('llmc')));
  const { code, stderr } = place.run(['train', '--out', 'llmc-stopped', '--resume', '--gpus', '1']);
  expect(code).toBe(1);
  expect(stderr).toContain(
    'with --gpus 1: it was trained with 2; only --order sequence can continue with another split',
  );
});

it('HellaSwag is asked by ranks in turn, with the figures of one', async () => {
  writeQuestions(place.path('questions.bin'), randomQuestions(60, { vocabulary: 100, longest: 12 }));
  // Weights that stay what they were, so that the answers are to the same.
  const asked = '--batch 2 --total-batch 64 --order sequence --steps 2 --lr 0 --val-every 0 --hellaswag-every 2'.split(
    ' ',
  );
  const answer = async (ranks: number) => {
    await run([...asked, '--hellaswag', 'questions.bin', '--gpus', String(ranks), '--out', `asked-${ranks}`]);
    return readRun(place.path(`asked-${ranks}`)).events.find(({ event }) => event === 'hellaswag');
  };
  const answers = [await answer(1), await answer(2)];
  expect(answers[0]).toMatchObject({ questions: 60 });
  expect(answers[1]).toEqual(answers[0]);
});

it('eval is shared by ranks, with the figures of one', async () => {
  await run([...long, '--steps', '5', '--val-every', '0', '--out', 'evaluated']);
  writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 100, longest: 12 }));
  const files = '--model evaluated --data data --hellaswag questions.bin --device cpu --json'.split(' ');
  const figures = [1, 3].map((ranks) => {
    const { stdout } = place.ok(['eval', ...files, '--gpus', String(ranks)]);
    const { seconds: _, device, ...rest } = JSON.parse(stdout) as Record<string, unknown>;
    return { device, rest };
  });
  expect(figures[0]!.rest).toMatchObject({ tokens: 1296, questions: 20 });
  expect(figures[1]!.rest).toEqual(figures[0]!.rest);
  expect(figures[1]!.device).toMatch('3 x cpu');
});
