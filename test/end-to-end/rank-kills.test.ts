// A rank that ends inside a save leaves no checkpoint but those of a job left alone. By the dozen: scripts/kill-ranks.ts.
import { expect, it } from 'vitest';
import { killRanks } from './rank-kills.ts';

it('a rank that ends inside a save leaves nothing that passes for a checkpoint', async () => {
  const { different, ends } = await killRanks({ kills: 4, seed: 3, kind: 'cpu' });
  expect(different).toBe(0);
  expect(ends).toEqual({ 1: 4 });
}, 600_000);
