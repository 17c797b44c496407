// The course's rungs with tensor cores, in bf16 on the emulated GPU.
import { expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { cards, course } from '../support/course.ts';
import { expectRight } from '../support/right-card.ts';

const withTensorCores = cards.filter(({ dtypes = ['fp32'] }) => !dtypes.includes('fp32'));
const tests = withTensorCores.map((card) => [card.folder.slice(course.length + 1), card.op, card] as const);

it('has rungs with tensor cores', () => {
  expect(new Set(tests.map(([rung]) => rung))).toEqual(
    new Set(['attention/4-tensor-cores', 'matmul/7-tensor-cores', 'matmul/8-pipeline']),
  );
});

it.each(tests)('%s: %s is right', async (_rung, _op, card) => {
  using device = Device.open({ kind: 'cpu' });
  // A CPU's tensors are fp32, but the cards take the place of its ops.
  Object.assign(device, { dtype: 'bf16', elementType: 'bf16', gradientType: 'bf16' });
  await expectRight(device, card);
});
