import { expect, it } from 'vitest';
import { killRuns } from './kills.ts';

it('a run that is killed ten times loses, repeats and changes nothing', async () => {
  const { kills, damaged } = await killRuns({ kills: 10, seed: 1 });
  expect(kills).toBe(10);
  expect(damaged).toBe(0);
});
