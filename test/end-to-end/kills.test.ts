import { expect, it } from 'vitest';
import { rounds, seed } from '../support/rounds.ts';
import { killRuns } from './kills.ts';

it('a run that is killed again and again loses, repeats and changes nothing', async () => {
  const report = await killRuns({ kills: 10 * rounds, seed });
  console.log(report);
  expect(report.kills).toBe(10 * rounds);
  expect(report.damaged).toBe(0);
});
