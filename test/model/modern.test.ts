// A model of the recipe "modern" against PyTorch: logits, micro-batches; then twenty steps from its initial weights. The rest: model.test.ts.
import { expect, it } from 'vitest';
import { modelLabel, presetConfig } from '../../src/model/config.ts';
import { decode } from '../../src/model/decode.ts';
import { KeyValueCache } from '../../src/model/key-value-cache.ts';
import { parameterCount, parameterTable, realCount } from '../../src/model/parameters.ts';
import { Device } from '../../src/native/device.ts';
import { floats, norm } from '../../src/ops/cases/case-numbers.ts';
import { noUpdate } from '../../src/optimizer/optimizer.ts';
import { Trainer } from '../../src/train/step/trainer.ts';
import { describeBackends } from '../support/backends.ts';
import {
  modernBatch,
  modernFixture,
  modernOptimizer,
  modernParts,
  modernTensors,
  smallModernConfig,
  smallModernModel,
  tinyModernConfig,
  tinyModernModel,
} from '../support/modern-models.ts';
import { expectClose } from '../support/tensors.ts';

const { B, T, draws } = modernFixture.tiny;
const { inputs, targets } = modernBatch;
// PyTorch's own fp32 is up to 2e-6 from its float64 in gradients.
const limit = 1e-5;

it('has the parameters that were recorded, and counts them', () => {
  const table = parameterTable(tinyModernConfig);
  expect(table.map(({ name }) => name)).toEqual(Object.keys(draws));
  expect(parameterCount(tinyModernConfig)).toBe(table.reduce((sum, parameter) => sum + realCount(parameter), 0));
  const d12 = { ...presetConfig('d12')!, ...modernParts };
  expect(modelLabel(d12)).toBe('l12-c768-h12');
});

describeBackends('modern model', (_, kind) => {
  it('decoding gives the logits of PyTorch, a text at once and token by token', () => {
    using device = Device.open({ kind });
    const model = tinyModernModel(device);
    const cache = new KeyValueCache(model, { texts: 1, window: T });
    cache.tokens.write(inputs.subarray((B - 1) * T));
    const logitsOf = (position: number, tokens: number) => {
      cache.positions.write(Int32Array.of(position));
      return floats(decode(model, model.activations.at(1, tokens), cache, { first: tokens - 1, rows: 1 }));
    };
    const wanted = modernTensors.get('logits').values;
    expectClose('at once', logitsOf(0, T), wanted, limit);
    for (let position = 0; position < T - 1; position++) logitsOf(position, 1);
    expectClose('token by token', logitsOf(T - 1, 1), wanted, limit);
  });

  it('micro-batches add up to the gradients of the batch, in every step', async () => {
    using device = Device.open({ kind, accumulates: true });
    const model = tinyModernModel(device);
    const step = { batch: 1, sequence: T, accumulation: B, optimizer: noUpdate, gradientClip: 0 };
    const trainer = new Trainer(model, step);
    for (let index = 0; index < 2; index++) {
      let row = 0;
      await trainer.step(index, 0, () => {
        const at = row++ * T;
        return { inputs: inputs.subarray(at, at + T), targets: targets.subarray(at, at + T) };
      });
      for (const { name } of parameterTable(tinyModernConfig)) {
        expectClose(name, floats(trainer.gradients.get(name)), modernTensors.get(`gradient/${name}`).values, limit);
      }
    }
  });
});

const { small } = modernFixture;

/** The batch of a step, from the stream of i^2 modulo the vocabulary. */
function batchAt(step: number) {
  const from = (start: number) =>
    Int32Array.from(
      { length: small.B * small.T },
      (_, index) => (start + index) ** 2 % smallModernConfig.vocabularySize,
    );
  return { inputs: from(step * small.B * small.T), targets: from(step * small.B * small.T + 1) };
}

describeBackends('recipe modern', (_, kind) => {
  it('starts as PyTorch draws it', () => {
    using device = Device.open({ kind });
    const model = smallModernModel(device);
    for (const { name, shape, rows } of parameterTable(smallModernConfig)) {
      const values = floats(model.masters.get(name));
      const recorded = small.drawn[name];
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
        padding.some((value) => value !== 0),
        `${name}: padding`,
      ).toBe(false);
    }
  });

  it('twenty steps equal PyTorch', async () => {
    using device = Device.open({ kind });
    const model = smallModernModel(device);
    const optimizer = modernOptimizer(small.B * small.T);
    const trainer = new Trainer(model, {
      batch: small.B,
      sequence: small.T,
      accumulation: 1,
      optimizer,
      gradientClip: 0,
    });
    for (const [index, loss] of small.losses.entries()) {
      const result = await trainer.step(index, small.factors[index]!, () => batchAt(index));
      // PyTorch's own fp32 is 1e-6 from its float64.
      expect(Math.abs(result.loss - loss), `loss of step ${index}`).toBeLessThan(1e-5);
    }
  });
});
