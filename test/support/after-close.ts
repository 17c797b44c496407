// A process of its own that uses what belongs to a closed device, as its argument says, and then trains on another device:
// memory that was written to after it was freed ends the process, then or later. Prints the new device's loss.
import { Gpt2Error } from '../../src/base/errors.ts';
import { lossesOf, meanLoss } from '../../src/inference/evaluate/mean-loss.ts';
import { generate } from '../../src/inference/sample/generate.ts';
import { KeyValueCache } from '../../src/model/key-value-cache.ts';
import { Device } from '../../src/native/device.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import { drawnModel, recordedBatch, tinyFixture, tinyTrainer } from './tiny-model.ts';

const { B: batch, T: sequence } = tinyFixture.batch;

/** The allocator keeps freed memory of these sizes, with its own lists in it, for what is allocated next. */
const small = [1, 2, 5, 20, 100];
/** Over 32 MiB, freed memory returns to the system at once: an access to it then ends the process. */
const large = Math.ceil(2 ** 26 / (8 * batch * sequence));

const openTrainer = (accumulation = 1): Trainer =>
  tinyTrainer(drawnModel(Device.open({ kind: 'cpu', threads: 1 })), { accumulation });

const step = (trainer: Trainer, index = 0) => trainer.step(index, 1e-3, () => recordedBatch);

/** It must throw a Gpt2Error that says what is closed. */
async function refused(work: () => unknown): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (error instanceof Gpt2Error && error.message.includes('closed')) return;
    throw error;
  }
  throw new Error(`not refused: ${work}`);
}

/** Steps of closed devices, and one of another device between them. */
async function stepsAfterClose(other?: Trainer): Promise<void> {
  for (const accumulation of small) {
    const trainer = openTrainer(accumulation);
    await step(trainer);
    trainer.model.device.close();
    for (let index = 1; index < 4; index++) await refused(() => step(trainer, index));
    if (other) await step(other);
  }
}

const scenarios: Record<string, () => Promise<void>> = {
  'a step': async () => {
    const trainer = openTrainer(large);
    trainer.model.device.close();
    trainer.model.device.close();
    for (let index = 0; index < 3; index++) await refused(() => step(trainer, index));
  },

  'a step after a step': () => stepsAfterClose(),

  'a step beside another device': async () => {
    const other = openTrainer();
    await stepsAfterClose(other);
    other.model.device.close();
  },

  'steps under way': async () => {
    for (const accumulation of small) {
      const trainer = openTrainer(accumulation);
      const begun = [];
      for (let index = 0; index < 3; index++) begun.push(await trainer.begin(index, 1e-3, () => recordedBatch));
      trainer.model.device.close();
      // The first was settled by the third.
      await begun[0]!.finished();
      for (const { finished } of begun.slice(1)) await refused(finished);
      for (let index = 3; index < 6; index++) await refused(() => step(trainer, index));
    }
  },

  'a step that is being enqueued': async () => {
    const trainer = openTrainer(large);
    let given = 0;
    await refused(() =>
      trainer.step(0, 1e-3, () => {
        if (given++ === 2) trainer.model.device.close();
        return recordedBatch;
      }),
    );
  },

  'everything but a step': async () => {
    const trainer = openTrainer();
    const { model } = trainer;
    const cache = new KeyValueCache(model, { texts: 1, window: 8 });
    const writer = new BackgroundWriter(model, trainer.optimizerState.copies);
    writer.prepare();
    const deferring = new Trainer(model, { ...trainer.options, defersUpdate: true });
    await (await deferring.begin(0, 1e-3, () => recordedBatch)).finished();
    const generation = generate(cache, { prompts: [[1]], tokens: 20, seed: 1 });
    await generation.next();
    model.device.close();
    await refused(() => deferring.update());
    await refused(() =>
      trainer.recompute(
        () => recordedBatch,
        () => {},
      ),
    );
    await refused(() => meanLoss(model, { batch, sequence, batches: 1 }, () => recordedBatch));
    await refused(() => lossesOf(model, [1, 2, 3]));
    await refused(async () => {
      for await (const _ of generation);
    });
    await refused(() => generate(cache, { prompts: [[1]], tokens: 20, seed: 1 }).next());
    await refused(() => trainer.optimizerState.copies[0]!.copy.matrices.read());
    const head = { folder: '/nowhere', step: 0, manifest: {} } as unknown as Parameters<BackgroundWriter['write']>[0];
    for (const inPlace of [true, false]) await refused(() => writer.write(head, undefined, { inPlace }));
    await writer.close();
    await refused(() => writer.prepare());
  },
};

await scenarios[process.argv[2]!]!();
const after = openTrainer();
const losses = [];
for (let index = 0; index < 3; index++) losses.push((await step(after, index)).loss);
after.model.device.close();
console.log(JSON.stringify(losses));
