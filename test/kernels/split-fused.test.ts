// Fused ops that run as their plain ones, as they do if a card computes one of these, against their formulas.

import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { opCases } from '../../src/ops/cases/index.ts';
import { callingsOf, plain } from '../../src/ops/cases/op-case.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { splitFused } from '../../src/ops/kernels/use-cards.ts';
import { plainOps } from '../../src/ops/plain-ops.ts';

it('fused ops that are split equal their formulas, however they are called', async () => {
  using device = Device.open({ kind: 'cpu' });
  splitFused(device);
  const split = Object.values(opCases)
    .flat()
    .filter(({ variant }) => plainOps.has(variant));
  expect(split).toHaveLength(plainOps.size);
  for (const cases of split) {
    for (const [index, sizes] of cases.sizes.entries()) {
      for (const calling of index === 0 ? callingsOf(cases) : [plain]) {
        expect((await runCase(device, cases, sizes, calling)).filter(({ isWithin }) => !isWithin)).toEqual([]);
      }
    }
  }
});
