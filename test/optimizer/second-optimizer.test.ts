// A second optimizer, known to this folder only, goes through everything that a run does: training, checkpoints, resume, capture
// and replay, memory planning, ZeRO-1.
import { fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { stateCopyBytes } from '../../src/checkpoint/background.ts';
import { newestValidCheckpoint, verifyCheckpoint } from '../../src/checkpoint/directory.ts';
import { loadOptimizer, loadWeights } from '../../src/checkpoint/read.ts';
import { writeCheckpoint } from '../../src/checkpoint/write.ts';
import { openSafetensors } from '../../src/formats/safetensors.ts';
import { parameterBytes } from '../../src/model/arena.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel } from '../../src/model/model.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Sharding } from '../../src/model/sharded-parameters.ts';
import type { Communicator } from '../../src/native/communicator.ts';
import { Device } from '../../src/native/device.ts';
import { floats } from '../../src/op-cases/numbers.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import * as choose from '../../src/optimizer/choose.ts';
import type { Optimizer, UpdatePart } from '../../src/optimizer/optimizer.ts';
import { OptimizerState } from '../../src/optimizer/state.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { replay } from '../../src/train/failure/replay.ts';
import { planRun } from '../../src/train/plan/plan.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { train } from '../../src/train/train.ts';
import { manifestFields } from '../checkpoint/trained-model.ts';
import { Workplace } from '../support/cli.ts';
import { GradientSum } from './gradient-sum.ts';
import { config, isOfLayer, microBatch, mixed, sizes, steps } from './mixed.ts';
import type { RankTask } from './rank.ts';

vi.mock('../../src/optimizer/choose.ts', { spy: true });

let place: Workplace;
beforeEach(() => {
  place = new Workplace();
});
afterEach(() => {
  vi.restoreAllMocks();
  place[Symbol.dispose]();
});

const options = (more: TrainOptions): TrainOptions => ({
  ...{ device: 'cpu', layers: 2, channels: 32, heads: 2, context: 32, batch: 2, sequence: 32, seed: 1 },
  ...{ valEvery: 0, sampleEvery: 0, saveEvery: 2, data: place.data({ below: 128, vocabulary: 128 }) },
  ...{ out: place.path('run') },
  ...more,
});

const newest = (out: string) => newestValidCheckpoint(checkpointsFolder(out)).checkpoint!;
const weightsAfter = (out: string): unknown =>
  JSON.parse(readFileSync(join(out, 'log.jsonl'), 'utf8').trim().split('\n').at(-1)!).weights;

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
    const broken = createModel(device, small, { B: 1, T: 16, purpose: 'inference' });
    initializeWeights(broken, 1);
    const gain = broken.masters.get('h.1.ln2w');
    gain.write(new Float32Array(gain.count).fill(3e38));
    const model = writeCheckpoint({
      ...{ folder: place.path('broken'), step: 1, model: broken, optimizer: [], manifest: manifestFields },
    });
    const { data, out, ...rest } = options({});
    const given = {
      data,
      out,
      device: rest.device,
      batch: 2,
      sequence: 32,
      model,
      steps: 3,
      valEvery: 0,
      sampleEvery: 0,
    };
    await expect(train(given as TrainOptions)).rejects.toThrow(/step 0 is not finite .* captured: /);
    expect((await replay(join(place.path('run'), 'captures', 'step-00000000'))).differences).toEqual([]);
  });

  it('takes one copy of the parameters, on the device and for a save', async () => {
    const given = options({ model: undefined });
    const { memory, savingMemory } = await planRun(given, () => {});
    expect(memory.get('optimizer state')).toBe(memory.get('weights'));
    expect(savingMemory).toBe(2 * memory.get('weights')!);
  });
});

/** Trains as one rank, with the micro-batches of both. */
async function trained(device: Device, optimizer: ConstructorParameters<typeof Trainer>[1]['optimizer']) {
  const model = createModel(device, config, { B: sizes.batch, T: sizes.sequence, purpose: 'training' });
  initializeWeights(model, 1);
  const trainer = new Trainer(model, { ...sizes, optimizer, accumulation: 2 });
  for (let step = 0; step < steps; step++) {
    let rank = 0;
    await trainer.step(step, 1e-3, () => microBatch(step, rank++));
  }
  return trainer;
}

describe('two optimizers', () => {
  it('each update their own parameters, and have memory for no others', async () => {
    using device = Device.open({ kind: 'cpu', accumulates: true });
    const sum = new GradientSum();
    const { model, optimizerState } = await trained(device, mixed(sum));
    using drawn = Device.open({ kind: 'cpu' });
    const before = createModel(drawn, config, { B: 1, T: 16, purpose: 'inference' });
    initializeWeights(before, 1);
    for (const parameter of parameterTable(config)) {
      const changed = model.masters.read(parameter).join() !== before.masters.read(parameter).join();
      expect(changed, parameter.name).toBe(!isOfLayer(parameter));
    }
    const names = optimizerState.copies.map(({ name, parameters }) => [name, parameters.filter(isOfLayer).length]);
    expect(names).toEqual([
      ['m', 0],
      ['v', 0],
      ['sum', 4 * config.layers],
    ]);
    expect(sum.seen).toEqual([1, 2, 3]);
    const rows = (bytes: number) => bytes / parameterBytes(config, 'fp32', 'fp32');
    const { channels: C, layers, context } = config;
    const others = 128 * C + context * C + layers * 13 * C + 2 * C;
    const bytes = device.allocated.get('optimizer state')!;
    expect(bytes).toBeGreaterThanOrEqual(4 * (2 * others + layers * 12 * C * C));
    expect(rows(bytes)).toBeLessThan(1.4);
    expect(stateCopyBytes(config, mixed(sum))).toBe(parameterBytes(config, 'fp32', 'fp32') + bytes);
  });

  it('give with ZeRO-1 what one rank gives, and the same checkpoint tensors', async () => {
    const folder = place.path('checkpoints');
    const answers = await ranks({ folder, step: steps, manifest: manifestFields });
    for (const { planned, allocated, seen } of answers) {
      expect(allocated).toBe(planned);
      expect(seen).toEqual([1, 2, 3]);
    }
    using device = Device.open({ kind: 'cpu', accumulates: true });
    const choice = mixed(new GradientSum());
    const alone = await trained(device, choice);
    using other = Device.open({ kind: 'cpu' });
    const loaded = new Trainer(createModel(other, config, { B: 2, T: 16, purpose: 'training' }), {
      ...{ ...sizes, optimizer: choice, accumulation: 1 },
    });
    const checkpoint = verifyCheckpoint(join(folder, 'step-00000003'));
    loadWeights(checkpoint, loaded.model);
    loadOptimizer(checkpoint, loaded.model, loaded.optimizerState.copies);
    const valuesOf = ({ model, optimizerState }: Trainer) =>
      [model.masters, ...optimizerState.copies.map(({ copy }) => copy)].flatMap(({ matrices, vectors }) => [
        ...floats(matrices),
        ...floats(vectors),
      ]);
    const [wanted, found] = [valuesOf(alone), valuesOf(loaded)];
    expect(found.length).toBe(wanted.length);
    // The same sums, added in another order; AdamW divides a gradient by its own size.
    const differences = found.map((value, index) => Math.abs(value - wanted[index]!));
    expect(differences.reduce((most, each) => Math.max(most, each))).toBeLessThan(1e-5);
  });
});

/** Sends a task to each of two processes, and gives their answers. */
async function ranks(head: RankTask['head']) {
  const children = [0, 1].map(() => fork(new URL('rank.ts', import.meta.url), { execArgv: ['--import', 'tsx'] }));
  const ask = (rank: number, id?: number[]) =>
    new Promise<{ id?: number[]; planned?: number; allocated?: number; seen?: number[] }>((resolve, reject) => {
      children[rank]!.once('message', resolve);
      children[rank]!.once('exit', (code) => reject(new Error(`rank ${rank} ended with ${code}`)));
      children[rank]!.send({ rank, head, id } satisfies RankTask);
    });
  try {
    const { id } = await ask(0);
    return await Promise.all([ask(0, id), ask(1, id)]);
  } finally {
    for (const child of children) child.kill('SIGKILL');
  }
}

describe('an optimizer of entire matrices', () => {
  const shapes: string[] = [];
  const ofMatrices: Optimizer = {
    ...{ name: 'of matrices', scalars: [] },
    rows: [{ name: 'momentum', dtype: 'fp32', parameters: isOfLayer, granularity: 'matrix' }],
    enqueue(_, parts) {
      for (const part of parts) {
        if (!part.state.momentum) continue;
        expect(distances(part)).toEqual([0, 0, 0]);
        shapes.push(part.weight.shape.join(' x '));
      }
    },
  };
  /** From the shape of the weight to those of the other tensors. */
  const distances = ({ weight, master, gradient, state }: UpdatePart) =>
    [master, gradient, state.momentum!].map(({ shape }) => Number(shape.join() !== weight.shape.join()));

  it('sees query, key and value apart, and each other matrix of a layer', async () => {
    using device = Device.open({ kind: 'cpu', accumulates: true });
    const trainer = await trained(device, ofMatrices);
    const { channels: C, layers } = config;
    const layer = [...Array(4).fill(`${C} x ${C}`), `${4 * C} x ${C}`, `${C} x ${4 * C}`];
    expect(shapes).toEqual(Array.from({ length: steps * layers }, () => layer).flat());
    const { model, gradients, optimizerState } = trainer;
    const parts = optimizerState.parts(ofMatrices, 'matrix', gradients.matrices).filter(({ state }) => state.momentum);
    expect(parts.slice(1, 4).map(({ weight }) => weight.pointer)).toEqual([
      model.weights.get('h.0.qkvw').pointer + BigInt(4 * C * C),
      model.weights.get('h.0.qkvw').pointer + BigInt(8 * C * C),
      model.weights.get('h.0.attprojw').pointer,
    ]);
  });

  it('is refused where ranks divide matrices', () => {
    using device = Device.open({ kind: 'cpu' });
    const communicator = { device, rank: 0, ranks: 2, parts: 2, share() {} } as unknown as Communicator;
    const sharding = new Sharding(communicator, config);
    const model = createModel(device, config, { B: sizes.batch, T: sizes.sequence, purpose: 'training' }, sharding);
    expect(() => new OptimizerState(model, ofMatrices)).toThrow(
      'of matrices updates entire matrices, but --zero 1 divides them: give --zero 0',
    );
  });
});
