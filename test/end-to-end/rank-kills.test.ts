// A rank that ends inside a save leaves no checkpoint but those of a job left alone.
import { expect, it } from 'vitest';
import { rounds, seed } from '../support/rounds.ts';
import { killRanks } from './rank-kills.ts';

it('a rank that ends inside a save leaves nothing that passes for a checkpoint', async () => {
  const report = await killRanks({ kills: 4 * rounds, seed, kind: process.env.GPT2_REQUIRE_CUDA ? 'cuda' : 'cpu' });
  console.log(report);
  expect(report.different).toBe(0);
  expect(report.ends).toEqual({ 1: 4 * rounds });
});
