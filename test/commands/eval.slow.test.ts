import { beforeAll, expect, it } from 'vitest';
import { writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { readRun } from '../../src/runs/reader.ts';
import { tinyModel, withCode, workplace } from '../support/cli.ts';
import { llmcModelFile } from '../support/llmc-model.ts';
import { randomQuestions } from '../support/questions.ts';

const place = workplace();
const evaluate = (...args: string[]) => {
  const line = ['eval', '--device', 'cpu', '--threads', '1', ...args];
  // Ranks are started as processes of the same command.
  return args.includes('--gpus') ? place.finished(line) : place.here(line);
};

beforeAll(async () => {
  place.data({ val: 1000, vocabulary: 50257 });
  const options = ['--steps', '2', '--batch', '2', '--seq', '32', '--sample-every', '0', '--dtype', 'fp32'];
  await place.okHere(['train', '--data', 'data', '--out', 'run', ...tinyModel, ...options]);
  writeQuestions(place.path('questions.bin'), randomQuestions(20, { vocabulary: 50257, longest: 40 }));
});

it("takes sizes and data of the run, and gives its validation's figure", async () => {
  const { stdout, stderr } = withCode(0, await evaluate('--model', 'run'));
  const loss = readRun(place.path('run')).series.val.at(-1)![1].toFixed(4);
  expect(stdout).toMatch(
    new RegExp(
      `^data val: loss ${loss} ± 0\\.\\d{4}   perplexity \\d+   bits per byte \\d+\\.\\d{4}   992 tokens   [\\d,]+ bytes\n31 sequences of 32, 2 at a time, [\\d,]+ tokens/s\n$`,
    ),
  );
  expect(stderr).toMatch(/^run\/checkpoints\/step-00000002 on cpu \w+ fp32\n7 tokens at the end of shards .*\n$/);
});

it('counts a sequence as one', async () => {
  expect((await evaluate('--model', 'run', '--tokens', '1')).stdout).toMatch(/^1 sequence of 32, 2 at a time, /m);
});

it('prints a loss that is no number, and exits with 1', async () => {
  const config = { layers: 1, channels: 32, heads: 2, context: 32, vocabularySize: 50257 };
  const parameters = new Map(parameterTable(config).map(({ name, shape }) => [name, shape]));
  const nans = (name: string) => {
    const size = name === 'wte' ? 50304 * 32 : parameters.get(name)!.reduce((all, each) => all * each);
    return new Float32Array(size).fill(Number.NaN);
  };
  place.file('nan.bin', llmcModelFile(config, 'fp32', nans));
  const args = ['--model', 'nan.bin', '--data', 'data'];
  const { stdout, stderr } = withCode(1, await evaluate(...args, '--json'));
  expect(JSON.parse(stdout)).toMatchObject({ loss: 'NaN' });
  expect(stderr).toMatch(/^the loss of nan\.bin on data is NaN: the model diverged or is damaged; /m);
  expect((await evaluate(...args)).stdout).toBe('');
});

it('gives all figures as JSON', async () => {
  const sizes = '--batch 4 --seq 16 --tokens 200'.split(' ');
  const { stdout } = withCode(0, await evaluate('--model', 'run', '--role', 'train', ...sizes, '--json'));
  const figures = JSON.parse(stdout) as Record<string, number>;
  expect(figures).toMatchObject({
    ...{ model: 'run/checkpoints/step-00000002', data: 'data', role: 'train' },
    ...{ tokens: 192, sequences: 12, batch: 4, sequence: 16 },
  });
  expect(figures.perplexity).toBe(Math.exp(figures.loss!));
  expect(figures.bitsPerByte).toBeCloseTo((figures.loss! * 192) / Math.log(2) / figures.bytes!, 12);
});

it('answers questions, alone or after the loss, the same at any batch size', async () => {
  const alone = withCode(0, await evaluate('--model', 'run', '--hellaswag', 'questions.bin'));
  expect(alone.stdout).toMatch(/^questions\.bin: acc 0\.\d{4} \(\d+ of 20\) {3}acc_norm 0\.\d{4} \(\d+\)\n$/);
  expect(alone.stderr).toMatch(/^\d+ of 80 rows are longer than --seq 32: the beginnings .* are cut off$/m);
  const options = '--hellaswag questions.bin --data data --json --batch 7';
  const both = await evaluate('--model', 'run', ...options.split(' '));
  const figures = JSON.parse(both.stdout) as Record<string, number>;
  expect(figures).toMatchObject({ data: 'data', batch: 7, hellaswag: 'questions.bin', questions: 20 });
  expect(alone.stdout).toContain(`(${figures.correct} of 20)`);
  expect(alone.stdout).toContain(`(${figures.correctNorm})`);
});

it('gives one loss at any batch, at the one that fits, and on two ranks', async () => {
  const figures = async (...args: string[]) => {
    const { stdout, stderr } = withCode(0, await evaluate('--model', 'run', '--seq', '16', '--json', ...args));
    return { stderr, ...(JSON.parse(stdout) as { batch: number; loss: number; tokens: number }) };
  };
  // Logits of 50,304 numbers a token.
  const picked = await figures('--batch', 'auto', '--max-memory', '0.1');
  expect(picked.stderr).toContain(`--batch auto is --batch ${picked.batch} here`);
  expect(picked.batch).toBeGreaterThan(10);
  for (const args of [['--batch', '1'], ['--batch', '4'], ['--batch', '64'], '--batch 3 --gpus 2'.split(' ')]) {
    const asked = await figures(...args);
    expect(Math.abs(asked.loss - picked.loss), args.join(' ')).toBeLessThan(2e-6);
    expect(asked.tokens).toBe(992);
  }
});
