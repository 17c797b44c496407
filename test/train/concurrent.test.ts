// Calls functions without awaiting the previous one: they share a model's activations and run one after the other.
import { expect, it } from 'vitest';
import { meanLoss } from '../../src/inference/evaluate/mean-loss.ts';
import { Device } from '../../src/native/device.ts';
import { describeBackends } from '../support/backends.ts';
import { drawnModel, recordedBatch, tinyFixture, tinyTrainer } from '../support/tiny-model.ts';

const { B: batch, T: sequence } = tinyFixture.batch;
const sizes = { batch, sequence, batches: 2 };
const other = { inputs: recordedBatch.targets, targets: recordedBatch.inputs };

describeBackends('calls that are not awaited', (_, kind) => {
  const open = (defersUpdate: boolean) => {
    const device = Device.open({ kind, accumulates: true });
    return { device, trainer: tinyTrainer(drawnModel(device), { accumulation: 3, defersUpdate }) };
  };

  it.each([false, true])('steps give what they give one by one, updates left to the next: %s', async (defers) => {
    const { device: first, trainer: awaited } = open(defers);
    using _first = first;
    const wanted = [];
    for (let index = 0; index < 5; index++) wanted.push(await awaited.step(index, 1e-2, () => recordedBatch));
    const { device: second, trainer } = open(defers);
    using _second = second;
    const steps = wanted.map((_, index) => trainer.step(index, 1e-2, () => recordedBatch));
    expect(await Promise.all(steps)).toEqual(wanted);
    expect(trainer.model.masters.get('wte').read()).toEqual(awaited.model.masters.get('wte').read());
  });

  it('a step that fails leaves those around it alone', async () => {
    const { device, trainer } = open(false);
    using _device = device;
    const bad = () => ({ ...recordedBatch, inputs: new Int32Array(1) });
    const steps = [0, 1, 2, 3].map((index) => trainer.step(index, 0, index === 1 ? bad : () => recordedBatch));
    const settled = await Promise.allSettled(steps);
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
    expect(await steps[3]).toEqual(await steps[0]);
  });

  it('an evaluation beside steps and another evaluation', async () => {
    const { device, trainer } = open(false);
    using _device = device;
    const { model } = trainer;
    const evaluations = () => [recordedBatch, other].map((given) => () => meanLoss(model, sizes, () => given));
    const step = () => trainer.step(0, 0, () => recordedBatch);
    const work = [step, ...evaluations(), step, ...evaluations()];
    const wanted = [];
    for (const each of work) wanted.push(await each());
    expect(await Promise.all(work.map((each) => each()))).toEqual(wanted);
  });
});
