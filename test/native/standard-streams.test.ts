// A process ends with its exit code though its standard error cannot be synced: koffi would hang over it.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { loader } from '../support/cli.ts';

const library = new URL('../../src/native/library.ts', import.meta.url);

it.each([1, 2])('a process whose descriptor %i fails ends with its exit code', (descriptor) => {
  // A closed descriptor fails as a full quota does: fsync(2) gives an error other than EINVAL.
  const script = `
    import { closeSync } from 'node:fs';
    await import('${library}');
    process.exitCode = 3;
    process.once('beforeExit', () => closeSync(${descriptor}));
  `;
  const { status, signal, stderr } = spawnSync(
    process.execPath,
    ['--import', loader, '--input-type=module', '--eval', script],
    { encoding: 'utf8', timeout: 60_000, killSignal: 'SIGKILL' },
  );
  expect([status, signal]).toEqual([3, null]);
  expect(stderr).toBe('');
});
