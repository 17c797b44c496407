// Runs of several ranks from the command line, on the CPU: the figures of one rank with accumulation, and the same bits, however
// gradients travel. Two ranks, and checkpoints that move between numbers of ranks: test/train/runs.slow.test.ts. Failures of ranks:
// rank-failures.test.ts.
import { readFileSync, rmSync } from 'node:fs';
import { expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { rankLogPath } from '../../src/runs/paths.ts';
import { readRun, type Series } from '../../src/runs/reader.ts';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { type Finished, withCode, workplace } from '../support/cli.ts';
import { eventsOf } from '../support/figures.ts';
import { windowedFlags } from '../support/modern-models.ts';
import { randomQuestions } from '../support/questions.ts';
import { inRanks, onRankData, rankData, sharedSteps, tinyRanks } from '../support/ranks.ts';

const place = workplace();
rankData(place);

/** With windows, which change what a rank keeps of a step. */
const run = [
  ...sharedSteps,
  ...`${windowedFlags.replace('--document-mask ', '')} --steps 12 --val-every 4 --dtype fp32`.split(' '),
];

const files = (out: string) => resolveCheckpoint(place.path(out)).manifest.files;
/** Trains in this process. */
const alone = (args: readonly string[]) => place.okHere(['train', ...tinyRanks, ...args]);
const series = (out: string) => readRun(place.path(out)).series;
const furthest = (a: Series, b: Series): number => {
  expect(a.map(([step]) => step)).toEqual(b.map(([step]) => step));
  return Math.max(...a.map(([, value], index) => Math.abs(value - b[index]![1])));
};

it.each([
  [1, 'on'],
  [0, 'off'],
])(
  'three ranks, ZeRO %i, --overlap %s: the figures of one with accumulation, and the same bits',
  async (zero, overlap) => {
    // In llm.c's validation a batch is one of each rank: as many tokens in fewer batches.
    const steps = (ranks: number) => [
      ...[...run, '--out', `${ranks}-${zero}`],
      ...(zero === 0 ? ['--val-steps', String(12 / ranks)] : []),
    ];
    await alone(steps(1));
    const flags = ['--zero', String(zero), '--overlap', overlap];
    const { stdout } = await inRanks(place, 3, ['train', ...tinyRanks, ...steps(3), ...flags]);
    expect(stdout).toContain('3 ranks on this machine');
    const [one, three] = [series(`1-${zero}`), series(`3-${zero}`)];
    expect(three.train.length).toBe(12);
    expect(furthest(one.train, three.train)).toBeLessThan(1e-5);
    expect(furthest(one.norm, three.norm)).toBeLessThan(1e-5);
    // Before the first update it is the same sum of the same numbers.
    expect(three.val[0]).toEqual(one.val[0]);
    expect(furthest(one.val, three.val)).toBeLessThan(1e-5);
    // The logs of other ranks have the same losses.
    expect(readFileSync(rankLogPath(place.path(`3-${zero}`), 2), 'utf8')).toContain(`"loss":${three.train.at(-1)![1]}`);
    expect(files(`3-${zero}`)).toEqual(files('3-1'));
  },
);

it("in llm.c's order and bf16 a run resumes bit for bit, ranks at other shards, and only with as many", async () => {
  const line =
    'train --layers 1 --order llmc --batch 2 --total-batch 128 --steps 60 --lr 1e-3 --val-every 0 --save-every 37 --dtype bf16 --out llmc';
  await inRanks(place, 2, [...line.split(' '), ...onRankData, ...'--channels 32 --heads 2 --context 16'.split(' ')]);
  const whole = files('llmc');
  rmSync(place.path('llmc/checkpoints/step-00000060'), { recursive: true });
  expect(withCode(1, await place.here('train --out llmc --resume --gpus 1')).stderr).toContain(
    'with --gpus 1: it was trained with 2; only --order sequence can continue with another split',
  );
  place.ok('train --out llmc --resume');
  expect(files('llmc')).toEqual(whole);
});

it('HellaSwag is asked by ranks in turn, with the figures of one', async () => {
  writeQuestions(place.path('questions.bin'), randomQuestions(60, { vocabulary: 100, longest: 12 }));
  // Weights that stay what they were, so that the answers are to the same.
  const asked = '--batch 2 --total-batch 64 --order sequence --steps 2 --lr 0 --val-every 0 --hellaswag-every 2';
  const answer = async (ranks: number) => {
    const line = `train ${tinyRanks.join(' ')} ${asked} --hellaswag questions.bin --out asked-${ranks}`;
    await (ranks === 1 ? place.okHere(line) : inRanks(place, ranks, line));
    return eventsOf(place.path(`asked-${ranks}`), 'hellaswag')[0];
  };
  const answers = [await answer(1), await answer(2)];
  expect(answers[0]).toMatchObject({ questions: 60 });
  expect(answers[1]).toEqual(answers[0]);
});

it('eval is shared by ranks, with the figures of one', async () => {
  await alone([...sharedSteps, '--steps', '5', '--val-every', '0', '--out', 'evaluated']);
  writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 100, longest: 12 }));
  const files = 'eval --model evaluated --data data --hellaswag questions.bin --device cpu --json';
  const figures = ({ stdout }: Finished) => {
    const { seconds: _, device, ...rest } = JSON.parse(stdout) as Record<string, unknown>;
    return { device, rest };
  };
  const [one, three] = [figures(await place.okHere(files)), figures(place.ok(`${files} --gpus 3`))];
  expect(one.rest).toMatchObject({ tokens: 1296, questions: 20 });
  expect(three.rest).toEqual(one.rest);
  expect(three.device).toMatch('3 x cpu');
});
