// The initial weights against what torch.manual_seed and Tensor.normal_ drew, in the documented order.
import { expect, it } from 'vitest';
import { Device, parameterTable, presetConfig } from '../../src/index.ts';
import { openGenerator } from '../../src/native/generator.ts';
import { floats, norm } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { readFixtureJson } from '../support/fixtures.ts';
import { modernFixture, smallModernConfig } from '../support/modern-models.ts';
import { drawnModel, tinyConfig } from '../support/tiny-model.ts';

interface Drawn {
  readonly first: readonly number[];
  readonly last?: readonly number[];
  readonly norm?: number;
}
type NormalCall = Record<'count' | 'mean' | 'standardDeviation', number> & { values: number[] };
const recorded = readFixtureJson<
  Record<'tiny' | 'd6', Record<string, Drawn>> & { normals: Record<string, NormalCall[]> }
>('init.json');

describeBackends('initial weights', (_, kind) => {
  it.each([
    ['the tiny model', tinyConfig, recorded.tiny, 1e-7],
    ['d6', presetConfig('d6')!, recorded.d6, 1e-7],
    // log, sin and cos of another library may differ in the last bits of numbers over 1, too.
    ['a modern GPT', smallModernConfig, modernFixture.small.drawn, 3e-7],
  ] as const)('%s starts as PyTorch draws it', (_, config, drawn: Readonly<Record<string, Drawn>>, limit) => {
    using device = Device.open({ kind });
    const model = drawnModel(device, config, { B: 1, T: 16, purpose: 'inference' });
    for (const { name, shape, rows } of parameterTable(config)) {
      const values = floats(model.masters.get(name));
      const recorded = drawn[name];
      if (!recorded) {
        const value = shape.length === 1 && name.endsWith('w') ? 1 : 0;
        expect([...new Set(values)], name).toEqual([value]);
        continue;
      }
      const { first, last = [], norm: wanted } = recorded;
      const count = (values.length / shape[0]!) * rows;
      for (const [start, numbers] of [
        [0, first],
        [count - last.length, last],
      ] as const) {
        numbers.forEach((value, index) => {
          const error = Math.abs(values[start + index]! - value) / Math.max(1, Math.abs(value));
          expect(error, `${name}[${start + index}]`).toBeLessThan(limit);
        });
      }
      if (wanted) expect(Math.abs(norm(values) / wanted - 1), `norm of ${name}`).toBeLessThan(1e-6);
      expect(norm(values.subarray(count)), `${name}: padding`).toBe(0);
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
