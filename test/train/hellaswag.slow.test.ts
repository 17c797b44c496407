// Evaluates HellaSwag while training: order of events, the figures of an evaluation of the checkpoint, unchanged steps, and a
// resumed run that equals one that was not stopped.
import { beforeAll, expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { createModel, Device, readRun, resolveWeights, type TrainOptions, train } from '../../src/index.ts';
import { readHellaswag, scoreHellaswag } from '../../src/inference/evaluate/hellaswag.ts';
import { describeBackends } from '../support/backends.ts';
import { workplace } from '../support/cli.ts';
import { figuresOf } from '../support/figures.ts';
import { randomQuestions } from '../support/questions.ts';
import { noticesOf } from '../support/tiny-run.ts';

const [batch, sequence] = [4, 32];
const place = workplace();
beforeAll(() => {
  place.data({ vocabulary: 100 });
  writeQuestions(place.path('questions.bin'), randomQuestions(60, { vocabulary: 100, longest: 50 }));
});

const run = (out: string, options: TrainOptions) =>
  noticesOf({
    ...{ layers: 2, channels: 128, heads: 2, context: 64, batch, sequence, data: place.path('data') },
    ...{ steps: 9, learningRate: 1e-2, valEvery: 2, valSteps: 2, sampleEvery: 0, totalBatch: 2 * batch * sequence },
    ...{ hellaswag: place.path('questions.bin'), hellaswagEvery: 3, out: place.path(out), ...options },
  });
const eventsOf = (out: string) => readRun(place.path(out)).events;
const answersOf = (out: string) => eventsOf(out).flatMap((event) => (event.event === 'hellaswag' ? [event] : []));

describeBackends(
  'hellaswag in training',
  (_, device, dtype) => {
    const name = (out: string) => `${out}-${device}-${dtype}`;
    const straight = name('straight');
    let notices: string[];
    beforeAll(async () => {
      notices = await run(straight, { device, dtype, saveEvery: 3 });
    });

    it('logs its figures every N steps and at the end, behind the validation', () => {
      const kinds = eventsOf(straight).flatMap((event) =>
        event.event === 'hellaswag' || event.event === 'val' ? [`${event.event} ${event.step}`] : [],
      );
      const wanted = 'val 0, val 2, hellaswag 3, val 4, val 6, hellaswag 6, val 8, val 9, hellaswag 9';
      expect(kinds.join(', ')).toBe(wanted);
      const said = notices.filter((notice) => notice.startsWith('hellaswag'));
      expect(said.length).toBe(1);
      expect(said[0]).toMatch(/^hellaswag: \d+ of 240 rows are over --seq 32: their contexts lose their beginning$/);
    });

    it('gives what an evaluation of the checkpoint gives, at any batch size', async () => {
      for (const { step, acc, accNorm, questions } of answersOf(straight)) {
        using opened = Device.open({ kind: device, dtype });
        const weights = await resolveWeights(place.path(straight, 'checkpoints', `step-0000000${step}`));
        const model = createModel(opened, weights.model, { B: 7, T: sequence, purpose: 'inference' });
        weights.load(model);
        const hellaswag = readHellaswag(place.path('questions.bin'), { sequence, vocabularySize: 100 });
        const score = await scoreHellaswag(model, hellaswag, { batch: 7, sequence });
        expect(score).toMatchObject({ acc, accNorm, questions });
      }
    });

    it('changes no step', async () => {
      await run(name('without'), { device, dtype, hellaswagEvery: 0 });
      const others = figuresOf(place.path(straight)).filter((line) => !line.includes('"event":"hellaswag"'));
      expect(figuresOf(place.path(name('without')))).toEqual(others);
    });

    it('goes on after a stop as if there had been none', async () => {
      for (const stopAfter of [3, 5]) {
        const out = name(`stopped${stopAfter}`);
        await run(out, { device, dtype, stopAfter });
        await train({ out: place.path(out), resume: true, hellaswag: place.path('questions.bin') });
        expect(figuresOf(place.path(out))).toEqual(figuresOf(place.path(straight)));
      }
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

it('refuses questions that are not there or not for the model before the run has a folder', async () => {
  const cpu = { device: 'cpu', out: place.path('refused') };
  await expect(run('refused', { ...cpu, hellaswag: 'none.bin' })).rejects.toThrow(
    /^there are no questions in none\.bin: run/,
  );
  const missing = { ...cpu, hellaswag: undefined };
  await expect(run('refused', missing)).rejects.toThrow(/in data\/hellaswag\/hellaswag_val\.bin: run/);
  const small = place.data({ vocabulary: 90, below: 90, name: 'small' });
  await expect(run('refused', { ...cpu, data: small })).rejects.toThrow(/outside the vocabulary of 90/);
  expect(() => readRun(place.path('refused'))).toThrow();
});
