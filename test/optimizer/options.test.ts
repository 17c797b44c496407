// Options of optimizers reach their updates.
import { describe, expect, it } from 'vitest';
import { Device, type TrainOptions } from '../../src/index.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { chooseOptimizer } from '../../src/optimizer/choose.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import { recordedBatch, recordedModel, tinyConfig, tinyTrainer } from '../support/tiny-model.ts';

/** How far the second of two steps moves each weight of a matrix; its learning rate is `share` of the first step's. */
async function secondMove(given: TrainOptions, matrix: string, share = 1): Promise<Float32Array> {
  using device = Device.open({ kind: 'cpu' });
  const model = recordedModel(device);
  const options = completeOptions(given, 'cpu');
  const trainer = tinyTrainer(model, { optimizer: chooseOptimizer(options), gradientClip: 0 });
  const weights = () => floats(model.masters.get(matrix)).slice();
  await trainer.step(0, options.learningRate, () => recordedBatch);
  const before = weights();
  await trainer.step(1, options.learningRate * share, () => recordedBatch);
  return weights().map((weight, index) => weight - before[index]!);
}

describe('adamw', () => {
  /** In learning rates. */
  const moves = async (given: TrainOptions) =>
    (await secondMove({ learningRate: 1e-3, weightDecay: 0, ...given }, 'h.0.fcw')).map((by) => Math.abs(by) / 1e-3);

  it('without memory of earlier steps, each weight moves by the learning rate', async () => {
    for (const move of await moves({ beta1: 0, beta2: 0, eps: 1e-20 })) expect(move).toBeCloseTo(1, 2);
  });

  it.each([{}, { beta1: 0, eps: 1e-20 }, { beta2: 0, eps: 1e-20 }])('%j: some move otherwise', async (given) => {
    expect((await moves(given)).some((move) => Math.abs(move - 1) > 0.02)).toBe(true);
  });

  it('a large eps shortens the move', async () => {
    expect(Math.max(...(await moves({ eps: 1e3 })))).toBeLessThan(1e-2);
  });
});

describe('muon', () => {
  /** The root of the mean square, as a share of a direction's, while the schedule halves the learning rate. */
  async function moveOf(given: TrainOptions): Promise<number> {
    const moves = await secondMove({ optimizer: 'muon', ...given }, 'h.0.attprojw', 0.5);
    return Math.sqrt(moves.reduce((sum, move) => sum + move ** 2, 0) / tinyConfig.channels);
  }

  it('a square matrix moves by half of --muon-lr when the schedule halves --lr', async () => {
    // A few singular values are too small to become 1.
    const move = await moveOf({ newtonSchulz: 'cubic' });
    expect(move).toBeGreaterThan(0.009);
    expect(move).toBeLessThan(0.0101);
    const faster = await moveOf({ newtonSchulz: 'cubic', muonLearningRate: 0.022 });
    expect(faster / move).toBeCloseTo(1.1, 2);
    expect((await moveOf({ newtonSchulz: 'cubic', learningRate: 4e-4 })) / move).toBeCloseTo(1, 2);
  });

  it('another iteration and another momentum move it otherwise; a learning rate of 0 moves nothing', async () => {
    const move = await moveOf({});
    expect(await moveOf({ newtonSchulz: 'quintic' })).not.toBeCloseTo(move, 5);
    expect(await moveOf({ muonMomentum: 0 })).not.toBeCloseTo(move, 7);
    expect(await moveOf({ learningRate: 0 })).toBe(0);
  });

  const ofMuon = 'has no effect with --optimizer adamw; give --optimizer muon too';
  it.each<[TrainOptions, string]>([
    [{ muonLearningRate: 0.01 }, `--muon-lr 0.01 ${ofMuon}`],
    [{ muonMomentum: 0.9 }, `--muon-momentum 0.9 ${ofMuon}`],
    [{ newtonSchulz: 'cubic', optimizer: 'adamw' }, `--newton-schulz cubic ${ofMuon}`],
  ])('%j is refused', (given, message) => {
    expect(() => completeOptions(given, 'cpu')).toThrow(message);
  });
});
