// The course's kernels: every op against its formula, at the op suite's sizes; and GPT-2's whole training step on them alone.

import { relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import { Device, type Dtype } from '../../src/native/device.ts';
import { callingsOf } from '../../src/ops/cases/callings.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { useCards } from '../../src/ops/kernels/use-cards.ts';
import { describeCuda } from '../support/backends.ts';
import { bestCards, cards, course, naiveCards } from '../support/course.ts';
import { trained } from '../support/course-training.ts';

/** A formula of more takes seconds. */
const isQuick = (sizes: Readonly<Record<string, number>>) =>
  Object.entries(sizes).every(([name, size]) => size <= (name === 'count' ? 1e6 : 5000));

describeCuda('the course', () => {
  describe.each(['fp32', 'bf16'] as const)('%s', (dtype: Dtype) => {
    const own = cards.filter(({ dtypes = ['fp32'] }) => dtypes.includes(dtype));
    it.each(own.map((card) => [`${card.op} of ${relative(course, card.folder)}`, card] as const))(
      '%s',
      async (_, card) => {
        using device = Device.open({ kind: 'cuda', dtype });
        await useCards(device, [card]);
        const cases = casesNamed(card.op);
        for (const sizes of cases.sizes.filter(isQuick)) {
          for (const calling of callingsOf(cases)) {
            const wrong = (await runCase(device, cases, sizes, calling)).filter(({ isWithin }) => !isWithin);
            expect(wrong, JSON.stringify(sizes)).toEqual([]);
          }
        }
      },
    );
  });

  const sizes = { channels: 128, batch: 4, sequence: 64, steps: 20 };
  const ours = (dtype: Dtype) => trained({ kind: 'cuda', dtype }, [], sizes);

  it.each([
    ['naive', naiveCards],
    ['the best', bestCards('fp32')],
  ])('trains GPT-2 on %s kernels alone, as on ours', async (_, used) => {
    const on = (graphs: boolean) => trained({ kind: 'cuda', dtype: 'fp32', graphs }, used, sizes);
    const [own, replaced] = [await ours('fp32'), await on(true)];
    for (const [step, loss] of replaced.losses.entries()) {
      expect(loss, `step ${step}`).toBeCloseTo(own.losses[step]!, 3);
    }
    expect(own.losses.at(-1)!).toBeLessThan(own.losses[0]! - 0.5);
    expect(await on(true), 'twice').toEqual(replaced);
    const opByOp = await on(false);
    expect(opByOp.losses, 'op by op').toEqual(replaced.losses);
    expect(opByOp.ownOps).toEqual([]);
  });

  it('trains in bf16 with one layernorm of the course', async () => {
    const layernorm = cards.filter(({ folder }) => folder.endsWith('layernorm/1-naive'));
    const [own, replaced] = [await ours('bf16'), await trained({ kind: 'cuda', dtype: 'bf16' }, layernorm, sizes)];
    for (const [step, loss] of replaced.losses.entries())
      expect(Math.abs(loss - own.losses[step]!), `step ${step}`).toBeLessThan(0.02);
  });
});
