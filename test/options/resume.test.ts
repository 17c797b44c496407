// Checks --resume against the column of the options table: refused, used with a notice, or used with --order sequence only.
import { expect, it } from 'vitest';
import { completeOptions } from '../../src/options/complete-options.ts';
import { resumedOptions, runToResume } from '../../src/options/resumed-options.ts';
import type { TrainOptions } from '../../src/options/table.ts';

const before: TrainOptions = {
  ...{ model: 'd6', layers: 6, channels: 384, heads: 6, context: 1024, seed: 42, order: 'llmc', overfitBatch: false },
  ...{ batch: 4, sequence: 64, totalBatch: 256, learningRate: 3e-4 },
};
const out = 'runs/d6';

function resume(given: TrainOptions, run: TrainOptions = before) {
  const notices: string[] = [];
  const options = resumedOptions(run, { out, ...given }, (text) => notices.push(text));
  return { options, notices };
}

it.each<[TrainOptions, string]>([
  [{ layers: 7 }, 'with --layers 7: it was trained with 6'],
  [{ context: 512 }, 'with --context 512: it was trained with 1024'],
  [{ seed: 1 }, 'with --seed 1: it was trained with 42'],
  [{ order: 'file' }, 'with --order file: it was trained with llmc'],
  [{ overfitBatch: true }, 'with --overfit-batch true: it was trained with false'],
  [{ window: 8 }, 'with --window 8: it was trained with none'],
  [{ documentMask: true }, 'with --document-mask true: it was trained with false'],
  [{ model: 'd12' }, 'with --model d12: it was trained with d6'],
  [{ model: 'runs/other' }, 'with --model runs/other: it was trained with d6'],
  [{ batch: 8 }, 'with --batch 8: it was trained with 4; only --order sequence can continue with another split'],
  [{ ranks: 2 }, 'with --gpus 2: it was trained with 1; only --order sequence can continue with another split'],
])('refuses %j', (given, reason) => {
  expect(() => resume(given)).toThrow(`cannot resume ${out} ${reason}`);
});

it('takes others with a notice, and what stays the same without one', () => {
  const same: TrainOptions = { model: 'custom', layers: 6, channels: 384, heads: 6, batch: 4, ranks: 1 };
  const given: TrainOptions = { ...same, learningRate: 1e-3, keep: 2, stopAfter: 5 };
  expect(resume(given)).toEqual({
    options: { ...before, out, ...given },
    notices: ["--lr 0.001 in place of the run's 0.0003", "--keep 2 in place of the run's default"],
  });
  const sequences: TrainOptions = { ...before, order: 'sequence' };
  expect(resume({ batch: 8 }, sequences).notices).toEqual(["--batch 8 in place of the run's 4"]);
  const validated: TrainOptions = { ...before, valSteps: 20 };
  expect(resume({}, validated).options).toEqual({ ...validated, out });
  expect(resume({ valTokens: 'all' }, validated)).toEqual({
    options: { ...before, out, valTokens: 'all' },
    notices: ["--val-tokens all in place of the run's --val-steps 20"],
  });
});

it('is of the run in --out', () => {
  expect(runToResume({ out })).toBeUndefined();
  expect(runToResume({ out, resume: true })).toBe(out);
});

it.each<[TrainOptions, TrainOptions, TrainOptions]>([
  [{}, {}, { schedule: 'cosine', finalLearningRateFraction: 0.1 }],
  [{ steps: 2000, warmup: 500 }, {}, { warmup: 500 }],
  [{ steps: 2000, warmup: 500 }, { steps: 400 }, { warmup: undefined }],
  [{ steps: 2000, warmup: 100 }, { steps: 400 }, { warmup: 100 }],
  [{ steps: 3, warmup: 0 }, { steps: 400 }, { warmup: 0 }],
  [{}, { finalLearningRateFraction: 0.2 }, { schedule: 'cosine', finalLearningRateFraction: 0.2 }],
  [{}, { schedule: 'cosine' }, { finalLearningRateFraction: 0.1 }],
  [{}, { schedule: 'linear' }, { finalLearningRateFraction: 0 }],
  [{}, { schedule: 'wsd' }, { finalLearningRateFraction: 0, decayFraction: 0.2 }],
  // As runs of before recorded a constant rate.
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, {}, { schedule: 'cosine', finalLearningRateFraction: 1 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, { schedule: 'linear' }, { finalLearningRateFraction: 0 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 1 }, { schedule: 'cosine' }, { finalLearningRateFraction: 1 }],
  [{ schedule: 'linear', finalLearningRateFraction: 1 }, { finalLearningRateFraction: 0 }, { schedule: 'linear' }],
  [{ schedule: 'constant', finalLearningRateFraction: 1 }, { finalLearningRateFraction: 0.1 }, { schedule: 'cosine' }],
  [{ schedule: 'linear', finalLearningRateFraction: 0.3 }, { schedule: 'wsd' }, { finalLearningRateFraction: 0 }],
  [{ schedule: 'linear', finalLearningRateFraction: 0.3 }, { schedule: 'linear' }, { finalLearningRateFraction: 0.3 }],
  [{ schedule: 'cosine', finalLearningRateFraction: 0.1 }, { schedule: 'constant' }, { finalLearningRateFraction: 1 }],
  [{ schedule: 'wsd', decayFraction: 0.5 }, { schedule: 'linear' }, { decayFraction: 0.2 }],
  // As runs of before recorded their default.
  [{ order: 'llmc' }, {}, { order: 'llmc' }],
])('of a run with %j, %j gives %j', (earlier, given, wanted) => {
  const resumed = resumedOptions(earlier, given, () => {});
  expect({ warmup: undefined, ...completeOptions(resumed, 'cpu') }).toMatchObject(wanted);
});
