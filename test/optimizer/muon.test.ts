// Muon in training steps: against PyTorch, recorded and op by op, and its memory. Options: options.test.ts. Whole runs: test/train/runs.slow.test.ts.
import { expect, it } from 'vitest';
import { AdamW, createModel, Device, isBlockMatrix, Muon, type Trainer, type TrainOptions } from '../../src/index.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { chooseOptimizer } from '../../src/optimizer/choose.ts';
import { type IterationName, iterationNames } from '../../src/optimizer/newton-schulz.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import { trainingPlan } from '../../src/train/plan/plan-memory.ts';
import { describeBackends } from '../support/backends.ts';
import { readFixture, readFixtureJson } from '../support/fixtures.ts';
import { expectClose, hashOf } from '../support/tensors.ts';
import { recordedBatch, recordedModel, tinyConfig, tinyFixture, tinyTrainer } from '../support/tiny-model.ts';

const { B: batch, T: sequence } = tinyFixture.batch;

const chosen = (given: TrainOptions) => chooseOptimizer(completeOptions({ optimizer: 'muon', ...given }, 'cpu'));

interface MuonFixture {
  readonly training: Readonly<Record<'learningRate' | 'weightDecay' | 'gradClip', number>> & {
    readonly muon: Readonly<Record<'learningRate' | 'momentum', number>>;
  };
  readonly losses: Readonly<Record<IterationName, readonly number[]>>;
}

describeBackends('muon', (_, kind) => {
  it.each(iterationNames)('ten updates equal PyTorch: %s', async (newtonSchulz) => {
    using device = Device.open({ kind });
    const { training, losses } = readFixtureJson<MuonFixture>('muon.json');
    const { learningRate, weightDecay, gradClip, muon } = training;
    const optimizer = chosen({
      ...{ learningRate, weightDecay, newtonSchulz },
      ...{ muonLearningRate: muon.learningRate, muonMomentum: muon.momentum },
    });
    const model = recordedModel(device);
    const trainer = tinyTrainer(model, { optimizer, gradientClip: gradClip });
    for (const [index, loss] of losses[newtonSchulz].entries()) {
      const result = await trainer.step(index, learningRate, () => recordedBatch);
      expect(Math.abs(result.loss - loss), `loss of step ${index}`).toBeLessThan(1e-5);
    }
    if (newtonSchulz !== 'polar-express') return;
    // The iteration multiplies rounding of directions with small singular values by up to 1000.
    const final = readFixture('muon.safetensors');
    for (const name of ['wpe', 'h.0.qkvw', 'h.0.attprojw', 'h.1.fcw', 'h.1.fcprojw']) {
      expectClose(name, floats(model.masters.get(name)), final.get(`final/${name}`).values, 1e-4);
    }
  });

  /** Losses and all weights after some steps. */
  async function trained(optimizer: ConstructorParameters<typeof Trainer>[1]['optimizer'], graphs = true) {
    using device = Device.open({ kind, graphs });
    const model = recordedModel(device);
    const trainer = tinyTrainer(model, { optimizer });
    const losses: number[] = [];
    for (let index = 0; index < 4; index++) losses.push((await trainer.step(index, 1e-3, () => recordedBatch)).loss);
    return [...losses, hashOf([model.masters.matrices, model.masters.vectors])];
  }

  it('gives the same bits op by op as recorded, and in batches of single matrices', async () => {
    const given = { learningRate: 3e-4, weightDecay: 0 };
    const wanted = await trained(chosen(given));
    expect(await trained(chosen(given), false)).toEqual(wanted);
    const options = { rate: 0.02 / 3e-4, weightDecay: 0 };
    const [adamw, muon] = [new AdamW({ weightDecay: 0 }), new Muon(options, 1)];
    expect(await trained((parameter) => (isBlockMatrix(parameter) ? muon : adamw))).toEqual(wanted);
  });

  it('allocates what is planned', () => {
    using device = Device.open({ kind });
    const optimizer = chosen({});
    const model = createModel(device, tinyConfig, { B: batch, T: sequence, purpose: 'training' });
    tinyTrainer(model, { optimizer });
    const plan = trainingPlan(device, tinyConfig, { B: batch, T: sequence, optimizer });
    expect(new Map([...device.allocated].sort())).toEqual(new Map([...plan].sort()));
    const { channels: C, layers } = tinyConfig;
    // Two copies of the largest batch: both fc matrices of each layer.
    expect(plan.get('optimizer scratch')).toBe(2 * 4 * (2 * layers * 4 * C * C));
  });
});
