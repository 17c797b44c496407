// One byte of a run's files is another: noticed, or nothing that comes out is. By the thousand: scripts/change-bytes.ts.
import { expect, it } from 'vitest';
import { changeBytes } from './change-bytes.ts';

it('a changed byte changes no result in silence', { timeout: 600_000 }, async () => {
  const reports = await changeBytes({ changes: 45, seed: 3 });
  for (const { file, silent, harmless, noticed, changes } of reports) {
    expect(silent, file).toEqual([]);
    expect([...harmless.keys()], file).not.toContain('no reason is known');
    expect(changes, file).toBe(5);
    expect(noticed, file).toBeGreaterThan(0);
  }
});
