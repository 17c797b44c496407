// HellaSwag: a model that has learned to count answers questions about it exactly; the same bits at any batch size; padding and
// other rows do not count; and the two figures are what plain loops over single rows give.
import { expect, it } from 'vitest';
import { type Question, writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { AdamW, type Tokenizer } from '../../src/index.ts';
import { completionLosses, readHellaswag, scoreHellaswag } from '../../src/inference/evaluate/hellaswag.ts';
import { castWeights, type Model } from '../../src/model/model.ts';
import { createCharacterTokenizer } from '../../src/tokenizer/character-tokenizer.ts';
import { describeBackends } from '../support/backends.ts';
import { workplace } from '../support/cli.ts';
import { countingBatch, countingQuestions, randomQuestions } from '../support/questions.ts';
import { drawnModel, forwardOf, tinyTrainer } from '../support/tiny-model.ts';

const config = { layers: 2, channels: 128, heads: 2, context: 256, vocabularySize: 100 };
const vocabulary = config.vocabularySize;
const place = workplace();

const read = (questions: readonly Question[], sequence: number, vocabularySize = vocabulary, tokenizer?: Tokenizer) => {
  const path = place.path('questions.bin');
  writeQuestions(path, questions);
  return readHellaswag(path, { sequence, vocabularySize, tokenizer });
};

describeBackends(
  'hellaswag',
  (device, _, dtype) => {
    /** As a seed draws it, but with opinions: embeddings that are larger tell tokens apart. */
    const drawn = (B: number, T: number): Model => {
      const model = drawnModel(device(), config, { B, T, purpose: 'inference' });
      const wte = model.masters.get('wte');
      wte.write((wte.read() as Float32Array).map((value) => 10 * value));
      castWeights(model);
      return model;
    };

    it('a model that has learned to count scores exactly, in the memory of its training', async () => {
      const [batch, sequence] = [8, 16];
      const model = drawnModel(device(), config, { B: batch, T: sequence, purpose: 'training' });
      const trainer = tinyTrainer(model, { batch, sequence, optimizer: new AdamW({ weightDecay: 0 }) });
      for (let step = 0; step < 150; step++) {
        await trainer.step(step, 3e-3, () => countingBatch(batch, sequence, vocabulary, step));
      }
      const before = new Map(device().allocated);
      const questions = countingQuestions(40, vocabulary);
      const all = await scoreHellaswag(model, read(questions, sequence), { batch, sequence });
      expect(all).toEqual({ acc: 1, accNorm: 1, correct: 40, correctNorm: 40, questions: 40 });
      const wrong = questions.map((each, index) => (index % 5 === 0 ? { ...each, label: (each.label + 1) % 4 } : each));
      const most = await scoreHellaswag(model, read(wrong, sequence), { batch, sequence });
      expect(most).toEqual({ acc: 0.8, accNorm: 0.8, correct: 32, correctNorm: 32, questions: 40 });
      expect(new Map(device().allocated)).toEqual(before);
    });

    it('gives the same bits at any batch size', async () => {
      const hellaswag = read(randomQuestions(30, { vocabulary, longest: 230 }), 256);
      expect(new Set(hellaswag.rows.map(({ width }) => width)).size).toBe(8);
      const [first, ...others] = await Promise.all(
        [1, 2, 3, 8].map((batch) => completionLosses(drawn(batch, 256), hellaswag, { batch, sequence: 256 })),
      );
      for (const other of others) expect(other).toEqual(first);
    });

    it('counts the tokens of completions and nothing else: as rows that are run by themselves', async () => {
      const questions = randomQuestions(20, { vocabulary, longest: 100 });
      const hellaswag = read(questions, 128);
      const model = drawn(4, 128);
      const sums = await completionLosses(model, hellaswag, { batch: 4, sequence: 128 });
      // bf16 keeps 8 bits of the residual stream; a row alone may take another kernel.
      const within = dtype === 'fp32' ? 1e-5 : 2e-2;
      let [correct, correctNorm] = [0, 0];
      for (const [index, { label, context, completions }] of questions.entries()) {
        const plain = completions.map((tokens) => {
          const row = Int32Array.from([...context, ...tokens]);
          const batch = forwardOf(model, { inputs: row.slice(0, -1), targets: row.slice(1) }, row.length - 1);
          const losses = batch.model.losses.readInto(new Float32Array(row.length - 1));
          return losses.slice(context.length - 1).reduce((sum, loss) => sum + loss, 0);
        });
        plain.forEach((sum, each) => {
          expect(Math.abs(sums[index]![each]! / sum - 1)).toBeLessThan(within);
        });
        const best = (values: number[]) => values.indexOf(Math.min(...values));
        if (best([...sums[index]!]) === label) correct++;
        if (best(completions.map((tokens, each) => sums[index]![each]! / tokens.length)) === label) correctNorm++;
      }
      const score = await scoreHellaswag(model, hellaswag, { batch: 4, sequence: 128 });
      expect(score).toMatchObject({ correct, correctNorm, questions: 20 });
      // By sum the shortest completions win, by mean they do not: the two figures are told apart.
      expect(correct).not.toBe(correctNorm);
    });

    it('leaves out the beginning of contexts that are too long', async () => {
      const questions = randomQuestions(10, { vocabulary, longest: 60 });
      const hellaswag = read(questions, 24);
      const shortened = questions.flatMap(({ label, context, completions }) =>
        completions.map((tokens) => ({ label, context: context.slice(-(25 - tokens.length)), completions: [tokens] })),
      );
      expect(hellaswag.cut).toBe(
        shortened.filter(({ context }, i) => context.length < questions[i >> 2]!.context.length).length,
      );
      expect(hellaswag.cut).toBeGreaterThan(0);
      const model = drawn(4, 24);
      const sums = await completionLosses(model, hellaswag, { batch: 4, sequence: 24 });
      const twice = shortened.map(({ context, completions }) => ({
        ...{ context, label: 0, completions: [...completions, ...completions] },
      }));
      const alone = await completionLosses(model, read(twice, 24), { batch: 4, sequence: 24 });
      expect(sums.flatMap((each) => [...each])).toEqual(alone.map(([sum]) => sum));
    });

    it('a model that has diverged knows no answer', async () => {
      const model = drawn(4, 64);
      model.masters.get('lnfb').write(new Float32Array(config.channels).fill(Number.NaN));
      castWeights(model);
      const hellaswag = read(randomQuestions(8, { vocabulary }), 64);
      const score = await scoreHellaswag(model, hellaswag, { batch: 4, sequence: 64 });
      expect(score).toEqual({ acc: 0, accNorm: 0, correct: 0, correctNorm: 0, questions: 8 });
    });
  },
  { dtypes: ['fp32', 'tf32', 'bf16'] },
);

it('refuses what the model cannot read', () => {
  const questions = randomQuestions(5, { vocabulary: 100 });
  const tokenizer = createCharacterTokenizer(Array(100).keys());
  expect(() => read(questions, 64, 90)).toThrow(
    /completion \d of question \d in .* has the token \d+, outside the vocabulary of 90; name a model/,
  );
  expect(() => read(questions, 5)).toThrow(/completion \d of question \d in .* has \d+ tokens, more than .* of 5/);
  expect(() => read(questions, 64, 100, tokenizer)).toThrow(
    /has GPT-2's tokens, but the model's tokenizer is another \(char\); name a model/,
  );
});
