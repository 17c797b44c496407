// The loss of a data set: what the run's own validation gives for the same sequences, over all whole sequences of several shards, at any
// batch, bits per byte of the text of the predicted tokens; and the batch that fits: the plan is what is allocated.
import { beforeAll, expect, it, vi } from 'vitest';
import { openShard, writeShard } from '../../src/data/shards/shard.ts';
import { Device, findShards, meanLoss, readRun, train, UsageError, writeShards } from '../../src/index.ts';
import { type EvaluateOptions, evaluate } from '../../src/inference/evaluate/evaluate.ts';
import { checkInferenceMemory, chooseInferenceBatch } from '../../src/inference/fit-memory.ts';
import { presetConfig } from '../../src/model/config.ts';
import { inferencePlan } from '../../src/model/memory.ts';
import { createModel, type Model } from '../../src/model/model.ts';
import { byteLengths, bytes, decode, encode, endOfText, gpt2 } from '../../src/tokenizer/tokenizer.ts';
import { resolveWeights } from '../../src/weights/weights.ts';
import { describeBackends } from '../support/backends.ts';
import { workplace } from '../support/cli.ts';
import { modernParts } from '../support/modern-models.ts';
import { refusalOf } from '../support/refusal.ts';
import { drawnModel } from '../support/tiny-model.ts';
import { tinyRun } from '../support/tiny-run.ts';

const config = { layers: 1, channels: 32, heads: 2, context: 64, vocabularySize: 50257 };
const sequence = 16;

const place = workplace('each');

describeBackends('evaluate', (device) => {
  let model: Model;
  beforeAll(() => {
    model = drawnModel(device(), config, { B: 4, T: sequence, purpose: 'inference' }, 1);
  });

  const run = (options: Partial<EvaluateOptions> = {}) => {
    const notices: string[] = [];
    const shards = findShards(place.path('data'), 'val');
    const given = { shards, tokenizer: 'gpt2', batch: 4, sequence, notice: (text: string) => notices.push(text) };
    return evaluate(model, { ...given, ...options }).then((result) => ({ ...result, notices }));
  };

  it('refuses no shards, the name of an unknown tokenizer, and another than the shards have', async () => {
    place.data({ val: 65 });
    await expect(run({ shards: [] })).rejects.toThrow('shards names no file: give the paths of one or more shards');
    await expect(run({ tokenizer: 'gpt4' })).rejects.toThrow(
      new UsageError(
        'tokenizer takes one of gpt2, bytes, or what readDatasetTokenizer() or readTokenizer() returns, not "gpt4"',
      ),
    );
    writeShards(place.path('bytes'), Array(9).fill('a few words'), { tokenizer: 'bytes' });
    const shards = findShards(place.path('bytes'), 'val');
    await expect(run({ shards, sequence: 4 })).rejects.toThrow('with another tokenizer (bytes) than tokenizer gpt2');
  });

  it('is the mean over every whole sequence of all shards, at any batch', async () => {
    place.data({ val: 64 * 3 + 1, vocabulary: 50257 });
    const second = Uint16Array.from({ length: 64 * 2 + 50 }, (_, i) => i);
    writeShard(place.path('data', 'second_val.bin'), second);
    const whole = await run();
    const notices = ['1 token at the end of shards fills no sequence of 16: left out'];
    expect(whole).toMatchObject({ sequences: 23, tokens: 368, batch: 4, notices });
    expect(whole.perplexity).toBe(Math.exp(whole.loss));
    const losses: number[] = [];
    for (const path of findShards(place.path('data'), 'val')) {
      using shard = openShard(path);
      for (let start = 0; start + sequence < shard.tokens; start += sequence) {
        const tokens = Int32Array.from(shard.read(start, sequence + 1));
        const batch = { inputs: tokens.slice(0, sequence), targets: tokens.slice(1) };
        losses.push(await meanLoss(model, { batch: 1, sequence, batches: 1 }, () => batch));
      }
    }
    const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = (mean(losses.map((loss) => (loss - mean(losses)) ** 2)) * 23) / 22;
    // On a GPU a row's sums may depend on how many rows there are.
    for (const batch of [1, 2, 3, 4]) {
      const { loss, standardError, tokens } = await run({ batch });
      expect(Math.abs(loss - mean(losses))).toBeLessThan(2e-6);
      expect(standardError).toBeCloseTo(Math.sqrt(variance / 23), 5);
      expect(tokens).toBe(368);
    }
    const some = await run({ tokens: 95 });
    expect(some).toMatchObject({ sequences: 5, tokens: 80 });
    expect(Math.abs(some.loss - mean([0, 4, 9, 13, 18].map((index) => losses[index]!)))).toBeLessThan(2e-6);
    const one = ['one sequence of 16 is read: it is over the 1 tokens asked for', ...notices];
    expect(await run({ tokens: 1 })).toMatchObject({ sequences: 1, standardError: undefined, notices: one });
    expect(await run({ tokens: 999 })).toEqual({
      ...whole,
      notices: ['all 23 sequences of 16 are read: the set does not hold 999 tokens', ...notices],
    });
  });

  it('reads sequences of shards of which each is shorter than a batch, and refuses a set without any', async () => {
    place.data({ val: 60, vocabulary: 50257 });
    expect(await run()).toMatchObject({ batch: 4, sequences: 3, tokens: 48 });
    place.data({ val: 10, vocabulary: 50257 });
    await expect(run()).rejects.toThrow(/random_val\.bin: no shard has 16 \+ 1 tokens/);
    await expect(run({ sequence: 65 })).rejects.toThrow("--seq 65 is over the model's context of 64 positions");
  });

  it('counts bits per byte over the text of the predicted tokens', async () => {
    const text = 'Grüße aus 東京 🙂, and some more plain text to fill the batch with.\n'.repeat(3);
    const ids = Uint16Array.from([endOfText, ...encode(text)]).subarray(0, 65);
    place.data({ vocabulary: 50257 });
    writeShard(place.path('data', 'random_val.bin'), ids);
    const { loss, bitsPerByte, bytes } = await run();
    const wanted = [...ids.subarray(1)].reduce((sum, id) => sum + byteLengths(gpt2, 50257)![id]!, 0);
    expect(bytes).toBe(wanted);
    // The cut may fall within a character: its first bytes are counted all the same.
    const decoded = Buffer.from(decode(ids.subarray(1)).replace(/\uFFFD$/, '')).length;
    expect(bytes! - decoded).toBeGreaterThanOrEqual(0);
    expect(bytes! - decoded).toBeLessThan(4);
    expect(bitsPerByte).toBeCloseTo((loss * 64) / Math.log(2) / wanted, 12);
    const unknown = await run({ tokenizer: undefined });
    expect(unknown).toMatchObject({ bitsPerByte: undefined, bytes: undefined, loss });
    expect(unknown.notices).toEqual(['no bits per byte: the tokenizer is not known']);
  });
});

it("eval of a run: gives its own validation's figures, to the last bit, at another batch", async () => {
  const data = place.data({ vocabulary: 100 });
  await train({
    ...{ ...tinyRun, data, out: place.path('run'), threads: 2, layers: 2, context: 64, batch: 4, steps: 5 },
    ...{ dtype: 'fp32', valEvery: 1, valTokens: 333, saveEvery: 3, learningRate: 1e-3 },
  });
  const { events } = readRun(place.path('run'));
  for (const [checkpoint, step] of Object.entries({ 'run/checkpoints/step-00000003': 3, run: 5 })) {
    using device = Device.open({ kind: 'cpu', threads: 1 });
    const weights = await resolveWeights(place.path(checkpoint));
    const model = createModel(device, weights.model, { B: 4, T: 32, purpose: 'inference' });
    weights.load(model);
    const shards = findShards(data, 'val');
    const { loss, standardError } = await evaluate(model, { shards, batch: 3, sequence: 32, tokens: 333 });
    const logged = events.find((event) => event.event === 'val' && event.step === step);
    expect(logged).toMatchObject({ loss, standardError, tokens: 320 });
  }
});

it('every token of GPT-2 has the bytes of its text, the end of a text none', () => {
  const lengths = byteLengths(gpt2, 50257)!;
  expect(lengths[endOfText]).toBe(0);
  for (const text of [' the', '\n', 'é', '🙂', ' unmistakable']) {
    const sum = encode(text).reduce((total, id) => total + lengths[id]!, 0);
    expect(sum, text).toBe(Buffer.from(text).length);
  }
  expect(byteLengths(bytes, 257)).toEqual(new Uint8Array(257).fill(1, 0, 256));
});

const small = { layers: 3, channels: 48, heads: 4, context: 128, vocabularySize: 1000 };

describeBackends(
  'the plan for inference',
  (_, kind, dtype) => {
    it.each([
      [1, 1, small],
      [3, 128, small],
      [40, 100, small],
      [3, 128, { ...small, ...modernParts }],
    ])('is what %d x %d takes of %j', (B, T, config) => {
      using device = Device.open({ kind, dtype });
      createModel(device, config, { B, T, purpose: 'inference' });
      expect(Object.fromEntries(inferencePlan(device, config, { B, T }))).toEqual(Object.fromEntries(device.allocated));
    });
  },
  { dtypes: ['fp32', 'bf16'] },
);

// Workspaces grow with threads.
const device = Device.open({ kind: 'cpu', threads: 2 });
const d12 = presetConfig('d12')!;
const refusal = (B: number, T: number, maxMemory?: number) =>
  refusalOf(() => checkInferenceMemory(device, d12, { B, T, maxMemory }));

it.each([
  [1024, 0.9],
  [1024, 2],
  [512, 1.1],
  [64, 1],
])('of sequences of %d in %d GiB refuses with the largest batch that fits, and auto picks it', (T, maxMemory) => {
  const message = refusal(1000, T, maxMemory);
  const batch = Number(/; --batch (\d+) fits$/.exec(message!)?.[1]);
  expect(batch, message).toBeGreaterThan(0);
  expect(message).toMatch(
    new RegExp(`^--batch 1000 with --seq ${T} needs [\\d.]+ GiB of memory, --max-memory ${maxMemory} allows no`),
  );
  expect(refusal(batch, T, maxMemory)).toBeUndefined();
  expect(refusal(batch + 1, T, maxMemory)).toContain(`; --batch ${batch} fits`);
  // No more than make a CPU faster.
  expect(chooseInferenceBatch(device, d12, { T, maxMemory })).toBe(Math.min(batch, 4096 / T));
});

it('what fits in no batch is told so', () => {
  expect(refusal(8, 1024, 0.5)).toMatch(/no batch fits: take a shorter --seq, or give a larger --max-memory$/);
  expect(() => chooseInferenceBatch(device, d12, { T: 1024, maxMemory: 0.5 })).toThrow(
    /^--batch auto: not one sequence of --seq 1024 fits, --max-memory 0\.5 allows no more; take a shorter --seq/,
  );
});

it('counts what is free, no more than a container leaves', () => {
  expect(refusal(60_000, 1024)).toMatch(/GiB of memory, [\d.]+ GiB of [\d.]+ GiB are free; --batch \d+ fits$/);
  const taken = process.memoryUsage.rss();
  vi.spyOn(process, 'constrainedMemory').mockReturnValue(2 ** 30 + taken);
  const inContainer = /^--batch 8 with --seq 1024 needs 1\.1 GiB of memory, (0\.9|1\.0) GiB of [\d.]+ GiB are free/;
  expect(refusal(8, 1024)).toMatch(inContainer);
  vi.restoreAllMocks();
  expect(refusal(8, 1024)).toBeUndefined();
});
