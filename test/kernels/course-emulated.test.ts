// The course on the emulated GPU: GPT-2's whole training step on its kernels alone, against the CPU library's.
import { describe, expect, it } from 'vitest';
import { bestCards, naiveCards } from '../support/course.ts';
import { trained } from '../support/course-training.ts';

const sizes = { channels: 64, batch: 2, sequence: 24, steps: 5 };
const library = await trained({ kind: 'cpu' }, [], sizes);

it('the library learns', () => {
  expect(library.ownOps.length).toBeGreaterThan(5);
  expect(library.losses.at(-1)!).toBeLessThan(library.losses[0]! - 0.3);
});

describe.each([
  ['the naive kernels', naiveCards],
  ['the best kernels', bestCards('fp32')],
])('%s', (_, cards) => {
  it('alone give our losses, and the same bits twice', async () => {
    const { losses, ownOps } = await trained({ kind: 'cpu' }, cards, sizes);
    expect(ownOps).toEqual([]);
    // They differ by 5e-7; without weight decay by 3e-5 after the first step.
    for (const [step, loss] of losses.entries()) expect(loss, `step ${step}`).toBeCloseTo(library.losses[step]!, 5);
    expect((await trained({ kind: 'cpu' }, cards, sizes)).losses).toEqual(losses);
  });
});
