// The initial weights against what torch.manual_seed and Tensor.normal_ drew, in the documented order.
import { expect, it } from 'vitest';
import { presetConfig } from '../../src/model/config.ts';
import { initializeWeights } from '../../src/model/initialize.ts';
import { createModel } from '../../src/model/model.ts';
import { parameterTable } from '../../src/model/parameters.ts';
import { Device } from '../../src/native/device.ts';
import { openGenerator } from '../../src/native/generator.ts';
import { floats } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { readFixtureJson } from '../support/fixtures.ts';
import { tinyConfig } from '../support/tiny-model.ts';

interface Drawn {
  first: number[];
  last: number[];
}
interface NormalCall {
  count: number;
  mean: number;
  standardDeviation: number;
  values: number[];
}
const recorded = readFixtureJson<{
  tiny: Record<string, Drawn>;
  d6: Record<string, Drawn>;
  normals: Record<string, NormalCall[]>;
}>('init.json');

describeBackends('initial weights', (_, kind) => {
  it.each([
    ['the tiny model', tinyConfig, recorded.tiny],
    ['d6', presetConfig('d6')!, recorded.d6],
  ] as const)('%s starts as PyTorch draws it', (_name, config, drawn) => {
    using device = Device.open({ kind });
    const model = createModel(device, config, { B: 1, T: 16, purpose: 'inference' });
    initializeWeights(model, 42);
    for (const { name, shape, rows, initial } of parameterTable(config)) {
      const values = floats(model.masters.get(name));
      if ('value' in initial) {
        expect([...new Set(values)], name).toEqual([initial.value]);
        continue;
      }
      const { first, last } = drawn[name]!;
      const count = (values.length / shape[0]!) * rows;
      // log, sin and cos of another library may differ in the last bit.
      first.forEach((value, index) => {
        expect(Math.abs(values[index]! - value), `${name}[${index}]`).toBeLessThan(1e-7);
      });
      last.forEach((value, index) => {
        const at = count - last.length + index;
        expect(Math.abs(values[at]! - value), `${name}[${at}]`).toBeLessThan(1e-7);
      });
      expect(
        values.subarray(count).some((value) => value !== 0),
        `${name}: padding`,
      ).toBe(false);
    }
  });

  it('draws any count from 16 on as PyTorch does', () => {
    for (const [name, calls] of Object.entries(recorded.normals)) {
      using generator = openGenerator(kind, Number(name.replace('seed', '')));
      for (const { count, mean, standardDeviation, values } of calls) {
        const normals = generator.normal(new Float32Array(count), mean, standardDeviation);
        // A few last bits of values around mean + 4 standard deviations.
        const limit = 1e-6 * (Math.abs(mean) + 4 * standardDeviation);
        values.forEach((value, index) => {
          expect(Math.abs(normals[index]! - value)).toBeLessThan(limit);
        });
      }
    }
  });

  it('refuses fewer than 16', () => {
    using generator = openGenerator(kind, 1);
    expect(() => generator.normal(new Float32Array(15), 0, 1)).toThrow('16 or more');
  });
});
