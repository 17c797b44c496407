// Fused ops that run as their plain ones, as they do if a card computes one of these, against their formulas.
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { opCases } from '../../src/ops/cases/index.ts';
import { plain, runCase, variantsOf } from '../../src/ops/cases/run-case.ts';
import { splitFused } from '../../src/ops/kernels/use-cards.ts';
import { replacementOf } from '../../src/ops/replacements.ts';

it('fused ops that are split equal their formulas, however they are called', async () => {
  using device = Device.open({ kind: 'cpu' });
  splitFused(device);
  const split = Object.values(opCases)
    .flat()
    .filter(({ op }) => replacementOf(device, op.name));
  expect(split.map(({ op }) => op.name)).toContain('classifier');
  for (const cases of split) {
    for (const [index, sizes] of cases.sizes.entries()) {
      for (const variant of index === 0 ? variantsOf(cases) : [plain]) {
        const results = await runCase(device, cases, sizes, variant);
        expect(results.filter(({ isWithin }) => !isWithin)).toEqual([]);
      }
    }
  }
});
