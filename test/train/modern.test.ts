// Training a model of the recipe "modern" from its initial weights, against PyTorch. Its gradients: test/model/modern.test.ts.
import { expect, it } from 'vitest';
import { parameterTable } from '../../src/model/parameters.ts';
import { Device } from '../../src/native/device.ts';
import { floats, norm } from '../../src/ops/cases/case-numbers.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { describeBackends } from '../support/backends.ts';
import { modernFixture, modernOptimizer, smallModernConfig, smallModernModel } from '../support/modern-models.ts';

const { B, T, drawn, factors, losses } = modernFixture.small;

/** The batch of a step, from the stream of i^2 modulo the vocabulary. */
function batchAt(step: number) {
  const from = (start: number) =>
    Int32Array.from({ length: B * T }, (_, index) => (start + index) ** 2 % smallModernConfig.vocabularySize);
  return { inputs: from(step * B * T), targets: from(step * B * T + 1) };
}

describeBackends('recipe modern', (_, kind) => {
  it('starts as PyTorch draws it', () => {
    using device = Device.open({ kind });
    const model = smallModernModel(device);
    for (const { name, shape, rows } of parameterTable(smallModernConfig)) {
      const values = floats(model.masters.get(name));
      const recorded = drawn[name];
      if (!recorded) {
        const value = shape.length === 1 && name.endsWith('w') ? 1 : 0;
        expect([...new Set(values)], name).toEqual([value]);
        continue;
      }
      // log, sin and cos of another library may differ in the last bits.
      recorded.first.forEach((value, index) => {
        expect(Math.abs(values[index]! - value), `${name}[${index}]`).toBeLessThan(3e-7 * Math.max(1, Math.abs(value)));
      });
      expect(Math.abs(norm(values) / recorded.norm - 1), `norm of ${name}`).toBeLessThan(1e-6);
      const padding = values.subarray((rows * values.length) / shape[0]!);
      expect(
        padding.every((value) => value === 0),
        `${name}: padding`,
      ).toBe(true);
    }
  });

  it('twenty steps equal PyTorch', async () => {
    using device = Device.open({ kind });
    const model = smallModernModel(device);
    const optimizer = modernOptimizer(B * T);
    const trainer = new Trainer(model, { batch: B, sequence: T, accumulation: 1, optimizer, gradientClip: 0 });
    for (const [index, loss] of losses.entries()) {
      const result = await trainer.step(index, factors[index]!, () => batchAt(index));
      // PyTorch's own fp32 is 1e-6 from its float64.
      expect(Math.abs(result.loss - loss), `loss of step ${index}`).toBeLessThan(1e-5);
    }
  });
});
