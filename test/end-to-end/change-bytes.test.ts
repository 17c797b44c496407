// One byte of a run's files changes: it is detected, or no result changes.
import { expect, it } from 'vitest';
import { rounds, seed } from '../support/rounds.ts';
import { changeBytes } from './change-bytes.ts';

it('a changed byte changes no result in silence', async () => {
  const reports = await changeBytes({ changes: 45 * rounds, seed });
  for (const { file, silent, harmless, noticed, changes } of reports) {
    console.log(file, { noticed, harmless });
    expect(silent, file).toEqual([]);
    expect([...harmless.keys()], file).not.toContain('no reason is known');
    expect(changes, file).toBe(5 * rounds);
    expect(noticed, file).toBeGreaterThan(0);
  }
});
