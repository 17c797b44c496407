// A second optimizer, known to this folder only, goes through everything that a run does: training, checkpoints, resume, capture
// and replay, memory planning; and two optimizers share a model. On several ranks: parts.test.ts, test/train/runs.slow.test.ts.
import { join } from 'node:path';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import { AdamW, Device, parameterTable, planRun, type Trainer, train, UsageError } from '../../src/index.ts';
import type { OptimizerChoice } from '../../src/optimizer/assign.ts';
import * as choose from '../../src/optimizer/choose.ts';
import { isBlockMatrix, Muon } from '../../src/optimizer/muon.ts';
import type { Optimizer } from '../../src/optimizer/optimizer.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { replay } from '../../src/train/failure/replay.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import { newestValidCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { writeCheckpoint } from '../../src/weights/checkpoint/write.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { manifestFields } from '../checkpoint/trained-model.ts';
import { workplace } from '../support/cli.ts';
import { eventsOf } from '../support/figures.ts';
import { drawnModel, recordedBatch, tinyConfig, tinyTrainer } from '../support/tiny-model.ts';
import { GradientSum } from './gradient-sum.ts';

vi.mock('../../src/optimizer/choose.ts', { spy: true });

const place = workplace('each');

const options = (more: TrainOptions): TrainOptions => ({
  ...{ device: 'cpu', layers: 2, channels: 32, heads: 2, context: 32, batch: 2, sequence: 32, seed: 1 },
  ...{ valEvery: 0, sampleEvery: 0, saveEvery: 2, data: place.data({ below: 128, vocabulary: 128 }) },
  ...{ out: place.path('run') },
  ...more,
});

const newest = (out: string) => newestValidCheckpoint(checkpointsFolder(out)).checkpoint!;
const weightsAfter = (out: string): string => eventsOf(out, 'done').at(-1)!.weights;

describe('a run with another optimizer', () => {
  beforeEach(() => void vi.mocked(choose.chooseOptimizer).mockImplementation(() => new GradientSum()));

  it('changes no weight, saves its one row, and resumes to the same bits', async () => {
    await train(options({ steps: 4 }));
    const { path, manifest } = newest(place.path('run'));
    using weights = openSafetensors(join(path, 'model.safetensors'));
    using state = openSafetensors(join(path, 'optimizer.safetensors'));
    expect(state.names).toEqual(weights.names.map((name) => `sum.${name}`));
    expect(state.read('sum.h.1.attn.c_attn.weight').some((value) => value !== 0)).toBe(true);

    await train(options({ steps: 1, out: place.path('one') }));
    expect(weightsAfter(place.path('run'))).toBe(weightsAfter(place.path('one')));

    const out = place.path('resumed');
    await train(options({ steps: 4, stopAfter: 2, out }));
    expect(newest(out).manifest.files).not.toEqual(manifest.files);
    await train({ out, resume: true, stopAfter: 4 });
    expect(newest(out).manifest.files).toEqual(manifest.files);
  });

  it('refuses to resume the state of AdamW', async () => {
    vi.mocked(choose.chooseOptimizer).mockImplementationOnce(({ weightDecay }) => new AdamW({ weightDecay }));
    await train(options({ steps: 4, stopAfter: 2 }));
    await expect(train({ out: place.path('run'), resume: true })).rejects.toThrow(
      /optimizer\.safetensors does not fit the model: it lacks sum\.wte\.weight/,
    );
  });

  it('is captured and replayed', async () => {
    using device = Device.open({ kind: 'cpu' });
    const small = { layers: 2, channels: 32, heads: 2, context: 32, vocabularySize: 128 };
    const broken = drawnModel(device, small, { B: 1, T: 16, purpose: 'inference' }, 1);
    const gain = broken.masters.get('h.1.ln2w');
    gain.write(new Float32Array(gain.count).fill(3e38));
    const model = writeCheckpoint({
      ...{ folder: place.path('broken'), step: 1, model: broken, optimizer: [], manifest: manifestFields },
    });
    const { layers: _, channels: __, heads: ___, context: ____, ...given } = options({ model, steps: 3, saveEvery: 0 });
    await expect(train(given)).rejects.toThrow(/step 0 is not finite .* captured: /);
    expect((await replay(join(place.path('run'), 'captures', 'step-00000000'))).differences).toEqual([]);
  });

  it('takes one copy of the parameters, on the device and for a save', async () => {
    const given = options({ model: undefined });
    const { memory, savingMemory } = await planRun(given, () => {});
    expect(memory.get('optimizer state')).toBe(memory.get('weights'));
    expect(savingMemory).toBe(2 * memory.get('weights')!);
  });
});

/** Three steps of the tiny model: `other` for the layers' matrices, AdamW for embeddings and vectors. */
async function trained(device: Device, other: Optimizer): Promise<Trainer> {
  const adamw = new AdamW({ weightDecay: 0.1 });
  const trainer = tinyTrainer(drawnModel(device), { optimizer: (each) => (isBlockMatrix(each) ? other : adamw) });
  for (let step = 0; step < 3; step++) await trainer.step(step, 1e-3, () => recordedBatch);
  return trainer;
}

it('two optimizers: each update their own parameters, and have memory for no others', async () => {
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const sum = new GradientSum();
  const { model, optimizerState } = await trained(device, sum);
  using drawn = Device.open({ kind: 'cpu' });
  const before = drawnModel(drawn);
  for (const parameter of parameterTable(tinyConfig)) {
    const changed = model.masters.read(parameter).join() !== before.masters.read(parameter).join();
    expect(changed, parameter.name).toBe(!isBlockMatrix(parameter));
  }
  const names = optimizerState.copies.map(({ name, parameters }) => [name, parameters.filter(isBlockMatrix).length]);
  expect(names.join(' ')).toBe(`m,0 v,0 sum,${4 * tinyConfig.layers}`);
  expect(sum.seen).toEqual([1, 2, 3]);
  const { channels: C, layers, context } = tinyConfig;
  const others = 128 * C + context * C + layers * 13 * C + 2 * C;
  const bytes = device.allocated.get('optimizer state')!;
  const whole = device.allocated.get('weights')!;
  expect(bytes).toBeGreaterThanOrEqual(4 * (2 * others + layers * 12 * C * C));
  expect(bytes / whole).toBeLessThan(1.4);
  // Where a row has no vectors, its device memory still takes one element.
  expect(new BackgroundWriter(model, optimizerState.copies).copyBytes).toBe(whole + bytes - 4);
});

it('an optimizer of whole matrices sees query, key and value apart, and each other matrix of a layer', async () => {
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const muon = new Muon({ rate: 1, weightDecay: 0 });
  const enqueue = vi.spyOn(muon, 'enqueue');
  const { model } = await trained(device, muon);
  const seen = enqueue.mock.calls.flatMap(([, parts]) => parts);
  const { channels: C, layers } = tinyConfig;
  const layer = [...Array(4).fill(`${C} x ${C}`), `${4 * C} x ${C}`, `${C} x ${4 * C}`];
  for (const name of ['weight', 'master', 'gradient'] as const) {
    const shapes = seen.map((part) => part[name].shape.join(' x '));
    expect(shapes, name).toEqual(Array(layers).fill(layer).flat());
  }
  expect(seen.map(({ state }) => state.momentum!.shape)).toEqual(seen.map(({ weight }) => weight.shape));
  expect(seen.slice(1, 4).map(({ weight }) => weight.pointer)).toEqual([
    model.weights.get('h.0.qkvw').pointer + BigInt(4 * C * C),
    model.weights.get('h.0.qkvw').pointer + BigInt(8 * C * C),
    model.weights.get('h.0.attprojw').pointer,
  ]);
});

const muon = (): Optimizer => new Muon({ rate: 1, weightDecay: 0 });
const sum = new GradientSum();
const [row] = sum.rows;
const summing = (more: object) => Object.assign(new GradientSum(), more);
const scalars = (at: (step: number) => unknown) => summing({ scalars: [{ name: 'updates', at }] });
it('takes scalars that are objects of a class', async () => {
  class Updates {
    readonly name = 'updates';
    at(step: number) {
      return step + 1;
    }
  }
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const trainer = tinyTrainer(drawnModel(device), { optimizer: summing({ scalars: [new Updates()] }) });
  expect((await trainer.step(0, 1e-3, () => recordedBatch)).loss).toBeGreaterThan(0);
});

it.each<[message: string, optimizer: OptimizerChoice]>([
  ['muon does not update h.0.ln1w, a vector; choose another optimizer for it, such as AdamW', muon()],
  [
    'optimizer gives wte another object at each call; create optimizers outside of the function',
    (parameter) => (parameter.kind === 'matrix' ? muon() : sum),
  ],
  ["an optimizer's enqueue takes a function, not undefined", summing({ enqueue: undefined })],
  ["an optimizer's scalars takes an array, not undefined", summing({ scalars: undefined })],
  [
    'the optimizers have 11 scalars, more than the 10',
    summing({ scalars: Array.from({ length: 11 }, (_, index) => ({ name: `s${index}`, at: () => 1 })) }),
  ],
  ['dtype takes one of fp32, not "bf16"', summing({ rows: [{ ...row, dtype: 'bf16' }] })],
  ['granularity takes one of element, matrix, not "row"', summing({ rows: [{ ...row, granularity: 'row' }] })],
  ['two rows or scalars of the optimizer gradient sum have one name', summing({ rows: [row, row] })],
  ['at takes a function, not undefined', summing({ scalars: [{ name: 'updates' }] })],
  ['the scalar updates of gradient sum in step 0 takes a number of at least', scalars(() => undefined)],
  ['in step 0 takes a number of at least -1.7014118346046923e+38, not NaN', scalars(() => Number.NaN)],
  ['enqueue of gradient sum returns a Promise; it must enqueue', summing({ enqueue: async () => {} })],
])('refuses: %s', async (message, optimizer) => {
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const step = async () => tinyTrainer(drawnModel(device), { optimizer }).step(0, 1e-3, () => recordedBatch);
  await expect(step()).rejects.toThrow(message);
  await expect(step()).rejects.toThrow(UsageError);
});
