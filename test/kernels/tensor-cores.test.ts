// The course's rungs with tensor cores, in bf16 on the emulated GPU. Their only PTX is in tensor-cores.cuh, which is replaced by functions
// that do the same lane by lane.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { loadCards } from '../../src/ops/kernels/kernel-card.ts';
import { Workplace } from '../support/cli.ts';
import { cards, course } from '../support/course.ts';
import { expectRight } from '../support/right-card.ts';

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
  cpSync(course, place.path('course'), { recursive: true });
  const header = place.path('course/tensor-cores.cuh');
  const plain = readFileSync(header, 'utf8').split(/^(?=\/\/ The fragment whose first line)/m)[1]!;
  const emulated = readFileSync(join(import.meta.dirname, 'emulated/tensor-cores.cuh'), 'utf8');
  writeFileSync(header, `#pragma once\n${emulated}\n${plain}`);
});
afterAll(() => {
  place[Symbol.dispose]();
});

const withTensorCores = cards.filter(({ dtypes = ['fp32'] }) => !dtypes.includes('fp32'));
const tests = withTensorCores.map(({ op, folder }) => [folder.slice(course.length + 1), op] as const);

it('has rungs with tensor cores', () => {
  expect(new Set(tests.map(([rung]) => rung))).toEqual(
    new Set(['attention/4-tensor-cores', 'matmul/7-tensor-cores', 'matmul/8-pipeline']),
  );
});

it.each(tests)('%s: %s is right', async (rung, op) => {
  using device = Device.open({ kind: 'cpu' });
  // A CPU's tensors are fp32, but the cards take the place of its ops.
  Object.assign(device, { dtype: 'bf16', elementType: 'bf16', gradientType: 'bf16' });
  const card = (await loadCards(place.path(`course/${rung}`))).find((each) => each.op === op)!;
  await expectRight(device, card);
});
