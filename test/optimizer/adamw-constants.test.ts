// --beta1, --beta2 and --eps reach AdamW's update.
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { chooseOptimizer } from '../../src/optimizer/choose.ts';
import { completeOptions } from '../../src/options/complete-options.ts';
import type { TrainOptions } from '../../src/options/table.ts';
import { recordedBatch, recordedModel, tinyTrainer } from '../support/tiny-model.ts';

const rate = 1e-3;

/** How far the second of two steps moves each weight of a layer, as shares of the learning rate. */
async function secondMove(given: TrainOptions): Promise<number[]> {
  using device = Device.open({ kind: 'cpu' });
  const model = recordedModel(device);
  const optimizer = chooseOptimizer(completeOptions({ weightDecay: 0, ...given }, 'cpu'));
  const trainer = tinyTrainer(model, { optimizer, gradientClip: 0 });
  const weights = () => floats(model.masters.get('h.0.fcw')).slice();
  await trainer.step(0, rate, () => recordedBatch);
  const before = weights();
  await trainer.step(1, rate, () => recordedBatch);
  return [...weights()].map((weight, index) => Math.abs(weight - before[index]!) / rate);
}

it('without memory of earlier steps, each weight moves by the learning rate', async () => {
  for (const move of await secondMove({ beta1: 0, beta2: 0, eps: 1e-20 })) expect(move).toBeCloseTo(1, 2);
});

it.each<[TrainOptions]>([[{}], [{ beta1: 0, eps: 1e-20 }], [{ beta2: 0, eps: 1e-20 }]])(
  '%j: some move otherwise',
  async (given) => {
    expect((await secondMove(given)).some((move) => Math.abs(move - 1) > 0.02)).toBe(true);
  },
);

it('a large eps shortens the move', async () => {
  expect(Math.max(...(await secondMove({ eps: 1e3 })))).toBeLessThan(1e-2);
});
