// A Trainer called by a program: batches that are not B x T tokens of the vocabulary are refused in every function that takes one, before any
// is copied; calls that are not awaited run one after the other; a workspace that grows between steps changes none of them.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ShapeError, UsageError } from '../../../src/base/errors.ts';
import { type Batch, Device, generate, type Loss, logits, saveModel, Trainer } from '../../../src/index.ts';
import { lossesOf, meanLoss } from '../../../src/inference/evaluate/mean-loss.ts';
import { initializeWeights } from '../../../src/model/initialize.ts';
import { KeyValueCache } from '../../../src/model/key-value-cache.ts';
import { createModel } from '../../../src/model/model.ts';
import type { LibraryKind } from '../../../src/native/find-library.ts';
import { crossEntropy } from '../../../src/ops/ops.generated.ts';
import { weightsHash } from '../../../src/train/run/weights-hash.ts';
import { resolveCheckpoint } from '../../../src/weights/checkpoint/directory.ts';
import { loadOptimizer } from '../../../src/weights/checkpoint/read-checkpoint.ts';
import { writeCheckpoint } from '../../../src/weights/checkpoint/write.ts';
import { manifestFields } from '../../checkpoint/trained-model.ts';
import { describeBackends } from '../../support/backends.ts';
import { workplace } from '../../support/cli.ts';
import { drawnModel, recordedBatch, tinyConfig, tinyFixture, tinyTrainer } from '../../support/tiny-model.ts';

const { B: batch, T: sequence } = tinyFixture.batch;
const count = batch * sequence;
const { inputs, targets } = recordedBatch;
const longer = (tokens: Int32Array, more: number) => Int32Array.from([...tokens, ...new Int32Array(more)]);
const withToken = (token: number) => {
  const changed = inputs.slice();
  changed[count - 1] = token;
  return changed;
};

/** JavaScript callers are not type-checked: some values are no Batch. */
const wrong: [string, unknown, string][] = [
  ['one input too many', { inputs: longer(inputs, 1), targets }, `inputs must be ${batch} x ${sequence} = ${count}`],
  ['two batches at once', { inputs: longer(inputs, count), targets: longer(targets, count) }, `not ${2 * count}`],
  ['one input too few', { inputs: inputs.subarray(1), targets }, `= ${count} tokens, not ${count - 1}`],
  ['one target too few', { inputs, targets: targets.subarray(1) }, `targets must be ${batch} x ${sequence}`],
  ['nothing', { inputs: new Int32Array(), targets: new Int32Array() }, `= ${count} tokens, not 0`],
  ['floats', { inputs: Float32Array.from(inputs), targets }, 'inputs must be an Int32Array, not Float32Array'],
  ['16 bits', { inputs, targets: Uint16Array.from(targets) }, 'targets must be an Int32Array, not Uint16Array'],
  ['an array', { inputs: [...inputs], targets }, 'inputs must be an Int32Array, not Array'],
  ['a promise', Promise.resolve(recordedBatch), 'inputs must be an Int32Array, not undefined'],
  ['no batch', undefined, 'inputs must be an Int32Array, not undefined'],
  ['a negative token', { inputs: withToken(-1), targets }, `the token -1 at ${count - 1}, outside`],
  ['the least token', { inputs, targets: withToken(-(2 ** 31)) }, `the token -2147483648 at ${count - 1}, outside`],
  ['a token too large', { inputs, targets: withToken(tinyConfig.vocabularySize) }, 'vocabulary of 61'],
  ['the largest token', { inputs: withToken(2 ** 31 - 1), targets }, 'the token 2147483647'],
];

const place = workplace();
const ignore = () => {};

/** A trainer on a device that closes when the test ends. */
function open(kind: LibraryKind, options: Parameters<typeof tinyTrainer>[1] = {}): Trainer {
  const device = Device.open({ kind, accumulates: true });
  onTestFinished(() => device.close());
  return tinyTrainer(drawnModel(device), options);
}

describeBackends('batches', (_, kind) => {
  /** Everything that steps change. */
  const state = ({ model, optimizerState, gradients }: Trainer): string => {
    const hash = createHash('sha256');
    const state = optimizerState.copies.map(({ copy }) => copy);
    for (const copy of [model.masters, ...state, gradients])
      hash.update(copy.matrices.read()).update(copy.vectors.read());
    return hash.digest('hex');
  };

  it.each(wrong)('%s', async (_, given, message) => {
    const trainer = open(kind, { accumulation: 2 });
    const { model } = trainer;
    const bad = () => given as Batch;
    const { tokens } = model.activations.at(batch, sequence).model;
    const before = [state(trainer), tokens.read()];
    for (const take of [
      () => trainer.step(0, 1e-3, bad),
      () => trainer.recompute(bad, ignore),
      () => meanLoss(model, { batch, sequence, batches: 1 }, bad),
    ]) {
      const refusal = await take().catch((error: unknown) => error);
      expect(refusal).toBeInstanceOf(ShapeError);
      expect(refusal).toMatchObject({ message: expect.stringContaining(message) });
    }
    expect([state(trainer), tokens.read()]).toEqual(before);
  });

  it('a step that broke off at its second micro-batch leaves nothing to those that follow', async () => {
    const trainer = open(kind, { accumulation: 2 });
    const clean = open(kind, { accumulation: 2 });
    let given = 0;
    const second = () => (given++ === 1 ? { inputs: longer(inputs, 1), targets } : recordedBatch);
    for (let index = 0; index < 4; index++) {
      given = 0;
      await expect(trainer.step(index, 1e-3, second)).rejects.toThrow(ShapeError);
      const results = [trainer, clean].map((each) => each.step(index, 1e-3, () => recordedBatch));
      expect(await results[0]).toEqual(await results[1]);
    }
    expect(state(trainer)).toEqual(state(clean));
  });

  it('views into a larger array are taken as they are', async () => {
    const trainer = open(kind);
    const larger = Int32Array.from([60, ...inputs, 60, ...targets, 60]);
    const views = { inputs: larger.subarray(1, count + 1), targets: larger.subarray(count + 2, 2 * count + 2) };
    const mean = (given: Batch) => meanLoss(trainer.model, { batch, sequence, batches: 1 }, () => given);
    expect(await mean(views)).toBe(await mean(recordedBatch));
    const recompute = (given: Batch) => trainer.recompute(() => given, ignore);
    expect(await recompute(views)).toEqual(await recompute(recordedBatch));
    expect((await trainer.step(0, 0, () => views)).loss).toBe((await trainer.step(1, 0, () => recordedBatch)).loss);
  });

  it('lossesOf takes tokens of the vocabulary, two or more', async () => {
    const trainer = open(kind);
    const refused = (tokens: ArrayLike<number>) => expect(lossesOf(trainer.model, tokens)).rejects;
    await refused([]).toThrow('a loss needs at least 2 tokens, not 0');
    await refused([1]).toThrow('a loss needs at least 2 tokens, not 1');
    await refused([1, 61]).toThrow('the token 61 at 0, outside');
    await refused([1n as never, 2]).toThrow('token 0 of the text is 1, which is not a token id');
    await refused([1, 2 ** 32 + 1]).toThrow('token 1 of the text is 4294967297, which is not a token id');
    await refused([1.5, 2]).toThrow('token 0 of the text is 1.5');
    await refused([1, Number.NaN]).toThrow('token 1 of the text is NaN');
    expect(await lossesOf(trainer.model, Uint16Array.of(1, 2, 3))).toEqual(await lossesOf(trainer.model, [1, 2, 3]));
  });

  it('logits give the losses, in as many sequences as asked for', async () => {
    const { model } = open(kind);
    const V = tinyConfig.vocabularySize;
    const values = await logits(model, recordedBatch);
    expect(values.length).toBe(count * V);
    const mean = Array.from(targets, (target, row) => {
      const of = values.subarray(row * V, (row + 1) * V);
      return Math.log(of.reduce((sum, value) => sum + Math.exp(value), 0)) - of[target]!;
    }).reduce((sum, loss) => sum + loss / count, 0);
    expect(mean).toBeCloseTo(await meanLoss(model, { batch, sequence, batches: 1 }, () => recordedBatch), 5);
    const first = inputs.subarray(0, sequence);
    expect(await logits(model, { inputs: first })).toEqual(values.subarray(0, sequence * V));
    await expect(logits(model, { inputs: longer(first, 1) }, { sequence })).rejects.toThrow(
      `${sequence + 1} inputs are no sequences of ${sequence} tokens`,
    );
    await expect(logits(model, { inputs: new Int32Array(0) })).rejects.toThrow('0 inputs are no sequences');
  });

  it("a loss of a program's ops has the bits of the built-in one", async () => {
    const enqueue =
      (overwrites: boolean): Loss['forward'] =>
      ({ device, vocabularySize: V, ...rows }) =>
        crossEntropy(device, { ...rows, dlogits: overwrites ? rows.logits : null, V });
    const loss = { forward: enqueue(false), backward: enqueue(true) };
    const [trainer, plain] = [open(kind, { accumulation: 2, loss }), open(kind, { accumulation: 2 })];
    for (let index = 0; index < 3; index++) {
      const results = [trainer, plain].map((each) => each.step(index, 1e-2, () => recordedBatch));
      expect(await results[0]).toEqual(await results[1]);
    }
    expect(state(trainer)).toBe(state(plain));
    const { model, options } = plain;
    const half = { forward: enqueue(false) } as unknown as Loss;
    expect(() => new Trainer(model, { ...options, loss: half })).toThrow('backward of loss takes a function');
    const late = new Trainer(model, { ...options, loss: { ...loss, backward: async () => {} } });
    await expect(late.step(3, 1e-2, () => recordedBatch)).rejects.toThrow(
      'backward of loss returns a Promise; it must',
    );
    const capped = drawnModel(model.device, { ...tinyConfig, head: 'untied', softcap: 15 });
    expect(() => new Trainer(capped, { ...options, loss })).toThrow('loss takes a model without a softcap');
  });

  it('a trainer of no or half a micro-batch, and a step of no number, are refused', async () => {
    const trainer = open(kind);
    const { model, options } = trainer;
    for (const [name, size] of Object.entries({ batch: 0, sequence: 2.5, accumulation: Number.NaN })) {
      expect(() => new Trainer(model, { ...options, [name]: size })).toThrow(
        new UsageError(`${name} takes a whole number of at least 1, not ${size}`),
      );
    }
    const { config } = model;
    expect(() => new Trainer(model, { ...options, batch: batch + 1 })).toThrow(
      `a batch of ${batch + 1} x ${sequence} tokens does not fit the model's activations, which hold ${count}`,
    );
    expect(() => new Trainer(model, { ...options, batch: 1, sequence: config.context + 1 })).toThrow(
      new UsageError(`sequence takes at most the model's context of ${config.context}, not ${config.context + 1}`),
    );
    const forInference = createModel(model.device, config, { B: batch, T: sequence, purpose: 'inference' });
    expect(() => new Trainer(forInference, options)).toThrow('the model was made for inference');
    const before = state(trainer);
    const step = (index: number, learningRate: number) =>
      expect(trainer.step(index, learningRate, () => recordedBatch)).rejects;
    const limited = (limits: object) => expect(trainer.step(0, 1e-3, () => recordedBatch, limits)).rejects;
    await limited({ lossLimit: 1 }).toThrow('there is no option "lossLimit"');
    const ofLoader = trainer.step(0, 1e-3, { next: () => recordedBatch } as never);
    await expect(ofLoader).rejects.toThrow('such as () => loader.next(), not an object');
    await limited({ norm: Number.NaN }).toThrow('norm takes a number of at least 0, not NaN');
    await step(-1, 1e-3).toThrow("a step's index takes a whole number of at least 0, not -1");
    await step(0, Number.NaN).toThrow('the learning rate of step 0 takes a number of at least 0, not NaN');
    await step(0, -1e-3).toThrow('the learning rate of step 0 takes a number of at least 0, not -0.001');
    expect(state(trainer)).toEqual(before);
  });
});

const sizes = { batch, sequence, batches: 2 };
const other = { inputs: recordedBatch.targets, targets: recordedBatch.inputs };

describeBackends('calls that are not awaited', (_, kind) => {
  it.each([false, true])('steps give what they give one by one, updates left to the next: %s', async (defers) => {
    const options = { accumulation: 3, defersUpdate: defers };
    const awaited = open(kind, options);
    const wanted = [];
    for (let index = 0; index < 5; index++) wanted.push(await awaited.step(index, 1e-2, () => recordedBatch));
    const trainer = open(kind, options);
    const steps = wanted.map((_, index) => trainer.step(index, 1e-2, () => recordedBatch));
    expect(await Promise.all(steps)).toEqual(wanted);
    expect(trainer.model.masters.get('wte').read()).toEqual(awaited.model.masters.get('wte').read());
  });

  it('a step that fails leaves those around it alone', async () => {
    const trainer = open(kind, { accumulation: 3 });
    const bad = () => ({ ...recordedBatch, inputs: new Int32Array(1) });
    const steps = [0, 1, 2, 3].map((index) => trainer.step(index, 0, index === 1 ? bad : () => recordedBatch));
    const settled = await Promise.allSettled(steps);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(await steps[3]).toEqual(await steps[0]);
  });

  it('what reads the weights waits for them, or is refused', async () => {
    const [awaited, trainer] = [open(kind), open(kind)];
    const step = (each: Trainer) => each.step(0, 1, () => recordedBatch);
    const results = async ({ model }: Trainer) => {
      const hash = weightsHash(model);
      const cache = new KeyValueCache(model, { texts: 1, window: 8 });
      const tokens: unknown[] = [];
      for await (const part of generate(cache, { prompts: [[1, 2]], tokens: 5, seed: 1 })) tokens.push(part);
      return [await hash, tokens];
    };
    await step(awaited);
    const wanted = await results(awaited);
    const { model, optimizerState } = trainer;
    const [done, found] = [step(trainer), results(trainer)];
    const folder = place.path('saved');
    const checkpoint = { folder, step: 0, manifest: manifestFields, model, optimizer: optimizerState.copies };
    const refused = 'a step or an evaluation of the model has not ended: await its Promise first';
    const uses = [() => saveModel(model, folder), () => writeCheckpoint(checkpoint), () => initializeWeights(model, 1)];
    for (const use of uses) expect(use).toThrow(refused);
    expect(await found).toEqual(wanted);
    await done;
    expect(existsSync(saveModel(model, folder))).toBe(true);
  });

  it('a second trainer begins after an update that the first has left, and saves no state of the first', async () => {
    const [both, apart] = [true, false].map((defersUpdate) => {
      const first = open(kind, { defersUpdate });
      return { first, second: new Trainer(first.model, first.options) };
    }) as [Record<'first' | 'second', Trainer>, Record<'first' | 'second', Trainer>];
    for (const { first, second } of [both, apart]) {
      await (await first.begin(0, 1e-2, () => recordedBatch)).finished();
      await second.step(0, 1e-2, () => recordedBatch);
    }
    const { model } = both.first;
    expect(model.masters.get('wte').read()).toEqual(apart.first.model.masters.get('wte').read());
    const [folder, manifest] = [place.path('second'), manifestFields];
    const save = ({ optimizerState: { copies: optimizer } }: Trainer) =>
      writeCheckpoint({ folder, step: 1, manifest, model, optimizer });
    expect(() => save(both.first)).toThrow('the optimizer state is not of the trainer that updated the model last');
    loadOptimizer(resolveCheckpoint(save(both.second)), model, both.first.optimizerState.copies);
    expect(() => save(both.second)).toThrow('not of the trainer that updated the model last');
  });

  it('an evaluation beside steps and another evaluation', async () => {
    const trainer = open(kind, { accumulation: 3 });
    const { model } = trainer;
    const evaluations = () => [recordedBatch, other].map((given) => () => meanLoss(model, sizes, () => given));
    const step = () => trainer.step(0, 0, () => recordedBatch);
    const work = [step, ...evaluations(), step, ...evaluations()];
    const wanted = [];
    for (const each of work) wanted.push(await each());
    expect(await Promise.all(work.map((each) => each()))).toEqual(wanted);
  });
});

describeBackends('a workspace', (_, kind) => {
  it('that grows between steps, as for a cache, changes none of them', async () => {
    const [alone, trainer] = [open(kind), open(kind)];
    const { device } = trainer.model;
    const step = (each: Trainer, index: number) => each.step(index, 1e-2, () => recordedBatch);
    expect(await step(trainer, 0)).toEqual(await step(alone, 0));
    // Its workspace takes the place of the one that the step was recorded with.
    const drop = vi.spyOn(device, 'dropGraphs');
    device.reserveWorkspace(1 << 24);
    expect(drop).toHaveBeenCalledOnce();
    new KeyValueCache(trainer.model, { texts: 2, window: 8 });
    for (let index = 1; index < 4; index++) expect(await step(trainer, index)).toEqual(await step(alone, index));
  });

  it('for which there is no memory is one that ops miss, not one that was freed', async () => {
    const trainer = open(kind);
    const { device } = trainer.model;
    const step = () => trainer.step(0, 0, () => recordedBatch);
    const { loss } = await step();
    const before = device.allocated.get('workspace')!;
    expect(() => device.reserveWorkspace(2 ** 50)).toThrow('cannot allocate');
    await expect(step()).rejects.toThrow(/workspace/);
    device.reserveWorkspace(before);
    expect((await step()).loss).toBe(loss);
  });
});
