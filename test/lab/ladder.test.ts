// The ladder: which kernels each of its steps has, and the picture of their speeds.
import { describe, expect, it } from 'vitest';
import { chapters, ladderOf } from '../../src/lab/ladder.ts';
import type { LoadedCard } from '../../src/ops/kernels/kernel-card.ts';
import { barsSvg } from '../../src/report/svg.ts';
import { cards, course } from '../support/course.ts';

/** Names of rungs with a card, as CHAPTER/RUNG. */
const rungs = (kept: (card: LoadedCard) => boolean) => [
  ...new Set(cards.filter(kept).map(({ folder }) => folder.slice(course.length + 1))),
];

describe('its steps', async () => {
  const steps = await ladderOf(['fp32', 'bf16']);
  const names = steps.map(({ name, dtype }) => `${name}, ${dtype}`);

  it('begin with every naive kernel, take each rung once, and end with the library', () => {
    expect(steps[0]!.cards.every(({ folder }) => folder.endsWith('1-naive'))).toBe(true);
    const faster = rungs(({ folder, dtypes = ['fp32'] }) => !folder.endsWith('1-naive') && dtypes.includes('fp32'));
    expect(names.slice(1, -3).sort()).toEqual(faster.map((rung) => `${rung}, fp32`).sort());
    expect([names[0], ...names.slice(-3)]).toEqual([
      ...['all naive, fp32', 'the library, fp32', 'best rungs, bf16', 'the library, bf16'],
    ]);
    expect(new Set(chapters)).toEqual(new Set(rungs(() => true).map((rung) => rung.split('/')[0])));
  });

  it('have one kernel for each op, which the new rung replaces', () => {
    const ops = steps[0]!.cards.map(({ op }) => op).sort();
    for (const [index, { name, dtype, cards }] of steps.entries()) {
      if (name === 'the library') expect(cards).toEqual([]);
      else if (dtype === 'fp32') expect(cards.map(({ op }) => op).sort(), name).toEqual(ops);
      for (const { dtypes = ['fp32'] } of cards) expect(dtypes, name).toContain(dtype);
      if (name.includes('/')) expect(cards, name).not.toEqual(steps[index - 1]!.cards);
    }
  });

  it('of some chapters leave the others naive', async () => {
    const some = await ladderOf(['fp32'], ['gelu']);
    expect(some.map(({ name }) => name)).toEqual(['all naive', 'gelu/2-grid-stride', 'gelu/3-vectors', 'the library']);
    const faster = some.at(-2)!.cards.filter(({ folder }) => !folder.endsWith('1-naive'));
    expect(faster.map(({ op }) => op)).toEqual(['gelu_forward', 'gelu_backward']);
    await expect(ladderOf(['fp32'], ['gelus'])).rejects.toThrow(/^--chapter takes one of residual, .*, not "gelus"$/);
  });
});

it('bars are as long as the logarithms of their values', () => {
  const bars = [1, 10, 100].map((value) => ({ name: `<${value}>`, value, label: `${value}`, color: '#123' }));
  const svg = barsSvg({ title: 'T', axis: 'tokens/s', source: 'S' }, bars);
  const [first, second, third] = [...svg.matchAll(/<rect x="220"[^>]* width="([\d.]+)"/g)].map(([, x]) => Number(x));
  expect(third! - second!).toBeCloseTo(second! - first!, 1);
  expect(first).toBeGreaterThan(0);
  expect(svg).toContain('&lt;10&gt;');
});
