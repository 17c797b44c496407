// A second optimizer, known to this folder only, goes through everything that a run does: training, checkpoints, resume, capture
// and replay, memory planning, ZeRO-1.
import { type ChildProcess, fork } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { createModel } from '../../src/model/model.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Device } from '../../src/native/device.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { AdamW } from '../../src/optimizer/adamw.ts';
import * as choose from '../../src/optimizer/choose.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { checkpointsFolder } from '../../src/runs/paths.ts';
import { replay } from '../../src/train/failure/replay.ts';
import { planRun } from '../../src/train/plan/plan.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { train } from '../../src/train/train.ts';
import { BackgroundWriter } from '../../src/weights/checkpoint/background.ts';
import {
  checkpointName,
  type FoundCheckpoint,
  newestValidCheckpoint,
  verifyCheckpoint,
} from '../../src/weights/checkpoint/directory.ts';
import { loadOptimizer, loadWeights } from '../../src/weights/checkpoint/read-checkpoint.ts';
import { writeCheckpoint } from '../../src/weights/checkpoint/write.ts';
import { openSafetensors } from '../../src/weights/files/safetensors.ts';
import { manifestFields } from '../checkpoint/trained-model.ts';
import { moduleLoader, programOf } from '../support/built.ts';
import { workplace } from '../support/cli.ts';
import { drawnModel } from '../support/tiny-model.ts';
import { GradientSum } from './gradient-sum.ts';
import { MatrixMomentum } from './matrix-momentum.ts';
import { config, isOfLayer, microBatch, microBatches, mixed, sizes, steps } from './mixed.ts';
import type { Job, RankAnswer, RankTask } from './rank.ts';

vi.mock('../../src/optimizer/choose.ts', { spy: true });

const place = workplace('each');

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

/** Trains as one rank, with the micro-batches of all. */
async function trained(device: Device, optimizer: ConstructorParameters<typeof Trainer>[1]['optimizer']) {
  const model = drawnModel(device, config, { B: sizes.batch, T: sizes.sequence, purpose: 'training' }, 1);
  const trainer = new Trainer(model, { ...sizes, optimizer, accumulation: microBatches });
  for (let step = 0; step < steps; step++) {
    let index = 0;
    await trainer.step(step, 1e-3, () => microBatch(step, index++));
  }
  return trainer;
}

it('two optimizers: each update their own parameters, and have memory for no others', async () => {
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const sum = new GradientSum();
  const { model, optimizerState } = await trained(device, mixed(sum));
  using drawn = Device.open({ kind: 'cpu' });
  const before = drawnModel(drawn, config, { B: 1, T: 16, purpose: 'inference' }, 1);
  for (const parameter of parameterTable(config)) {
    const changed = model.masters.read(parameter).join() !== before.masters.read(parameter).join();
    expect(changed, parameter.name).toBe(!isOfLayer(parameter));
  }
  const names = optimizerState.copies.map(({ name, parameters }) => [name, parameters.filter(isOfLayer).length]);
  expect(names.join(' ')).toBe(`m,0 v,0 sum,${4 * config.layers}`);
  expect(sum.seen).toEqual([1, 2, 3]);
  const { channels: C, layers, context } = config;
  const others = 128 * C + context * C + layers * 13 * C + 2 * C;
  const bytes = device.allocated.get('optimizer state')!;
  const whole = device.allocated.get('weights')!;
  expect(bytes).toBeGreaterThanOrEqual(4 * (2 * others + layers * 12 * C * C));
  expect(bytes / whole).toBeLessThan(1.4);
  // Where a row has no vectors, its device memory still takes one element.
  expect(new BackgroundWriter(model, optimizerState.copies).copyBytes).toBe(whole + bytes - 4);
});

describe('ranks', () => {
  const processes: ChildProcess[] = [];
  beforeAll(async () => {
    const program = await programOf(join(import.meta.dirname, 'rank.ts'));
    const start = () => fork(program, { execArgv: moduleLoader });
    processes.push(...Array.from({ length: 3 }, start));
  });
  afterAll(() => {
    for (const child of processes) child.kill('SIGKILL');
  });

  /** Gives a job to its ranks, and gives their answers and the checkpoint that they write. */
  async function doTogether(given: Pick<Job, 'ranks'> & Partial<Job>) {
    const job = { zero: 1 as const, optimizer: 'matrix momentum' as const, first: 0, steps, ...given };
    const folder = place.path(`job-${++jobs}`);
    const head = { folder, step: job.first + job.steps, manifest: manifestFields };
    const ask = <Answer>(rank: number, id?: number[]) =>
      new Promise<Answer>((resolve, reject) => {
        const child = processes[rank]!;
        const ended = () => reject(new Error(`rank ${rank} ended with ${child.exitCode}`));
        if (!child.connected) return ended();
        child.once('exit', ended);
        child.once('message', (answer) => {
          child.off('exit', ended);
          resolve(answer as Answer);
        });
        child.send({ ...job, head, rank, id } satisfies RankTask);
      });
    const { id } = job.ranks > 1 ? await ask<{ id: number[] }>(0) : {};
    const answers = await Promise.all(Array.from({ length: job.ranks }, (_, rank) => ask<RankAnswer>(rank, id)));
    for (const { planned, allocated } of answers) expect(allocated).toEqual(planned);
    return { answers, checkpoint: verifyCheckpoint(join(folder, checkpointName(head.step))) };
  }
  let jobs = 0;

  const optimizers = { 'gradient sum': () => new GradientSum(), 'matrix momentum': () => new MatrixMomentum() };

  /** Checks weights and state of a checkpoint against training with one rank. */
  async function expectAsAlone(checkpoint: FoundCheckpoint, name: Job['optimizer'] = 'matrix momentum') {
    using device = Device.open({ kind: 'cpu', accumulates: true });
    const choice = mixed(optimizers[name]());
    const alone = await trained(device, choice);
    using other = Device.open({ kind: 'cpu' });
    const empty = createModel(other, config, { B: 2, T: 16, purpose: 'training' });
    const loaded = new Trainer(empty, { ...sizes, optimizer: choice, accumulation: 1 });
    loadWeights(checkpoint, loaded.model);
    loadOptimizer(checkpoint, loaded.model, loaded.optimizerState.copies);
    const valuesOf = ({ model, optimizerState }: Trainer) =>
      [model.masters, ...optimizerState.copies.map(({ copy }) => copy)].flatMap(({ matrices, vectors }) => [
        ...floats(matrices),
        ...floats(vectors),
      ]);
    const [wanted, found] = [valuesOf(alone), valuesOf(loaded)];
    expect(found.length).toBe(wanted.length);
    // The same sums, added in another order; both optimizers divide a gradient by its own size.
    const differences = found.map((value, index) => Math.abs(value - wanted[index]!));
    expect(differences.reduce((most, each) => Math.max(most, each))).toBeLessThan(1e-5);
  }

  it('with two optimizers give with ZeRO-1 what one rank gives, and the same checkpoint tensors', async () => {
    const optimizer = 'gradient sum';
    const { answers, checkpoint } = await doTogether({ ranks: 2, optimizer });
    for (const { scalars } of answers) expect(scalars).toEqual([1, 2, 3]);
    await expectAsAlone(checkpoint, optimizer);
  });

  const everyMatrix = parameterTable(config)
    .filter(isOfLayer)
    .flatMap(({ name, matrices }) => Array.from({ length: matrices }, (_, index) => `${name} ${index}`))
    .sort();

  it.each([2, 3])('%i: each matrix is updated by one of them, and the weights are those of one rank', async (ranks) => {
    const { answers, checkpoint } = await doTogether({ ranks });
    for (const { matrices } of answers) {
      expect(matrices.length).toBe(steps);
      for (const step of matrices) expect(step).toEqual(matrices[0]);
      expect(matrices[0]!.length).toBeGreaterThan(0);
    }
    expect(answers.flatMap(({ matrices }) => matrices[0]!).sort()).toEqual(everyMatrix);
    await expectAsAlone(checkpoint);
  });

  it('continue each other to the weights of one rank', async () => {
    let from: string | undefined;
    for (const [first, ranks] of [2, 1, 3].entries()) {
      const { checkpoint } = await doTogether({ ranks, from, first, steps: 1 });
      from = checkpoint.path;
    }
    await expectAsAlone(verifyCheckpoint(from!));
  });

  it('load any checkpoint, and save the same files', async () => {
    const written = await doTogether({ ranks: 2 });
    let from = written.checkpoint.path;
    for (const [ranks, zero] of [
      [1, 1],
      [2, 0],
      [3, 1],
    ] as const) {
      const { answers, checkpoint } = await doTogether({ ranks, zero, from, first: steps, steps: 0 });
      expect(checkpoint.manifest.files, `${ranks} ranks, --zero ${zero}`).toEqual(written.checkpoint.manifest.files);
      for (const { state } of answers) expect(state).toBe(written.answers[0]!.state);
      from = checkpoint.path;
    }
  });

  it('with and without ZeRO-1 give the same bits', async () => {
    const [divided, whole] = [await doTogether({ ranks: 2 }), await doTogether({ ranks: 2, zero: 0 })];
    expect(divided.checkpoint.manifest.files).toEqual(whole.checkpoint.manifest.files);
  });
});

it('an optimizer of whole matrices sees query, key and value apart, and each other matrix of a layer', async () => {
  using device = Device.open({ kind: 'cpu', accumulates: true });
  const momentum = new MatrixMomentum();
  const { model } = await trained(device, mixed(momentum));
  const seen = momentum.seen.flat();
  const { channels: C, layers } = config;
  const layer = [...Array(4).fill(`${C} x ${C}`), `${4 * C} x ${C}`, `${C} x ${4 * C}`];
  for (const name of ['weight', 'master', 'gradient'] as const) {
    const shapes = seen.map((part) => part[name].shape.join(' x '));
    expect(shapes, name).toEqual(Array.from({ length: steps * layers }, () => layer).flat());
  }
  expect(seen.map(({ state }) => state.momentum!.shape)).toEqual(seen.map(({ weight }) => weight.shape));
  expect(seen.slice(1, 4).map(({ weight }) => weight.pointer)).toEqual([
    model.weights.get('h.0.qkvw').pointer + BigInt(4 * C * C),
    model.weights.get('h.0.qkvw').pointer + BigInt(8 * C * C),
    model.weights.get('h.0.attprojw').pointer,
  ]);
});
