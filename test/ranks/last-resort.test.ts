// A process whose main thread never comes back still ends, having said why; one that ends by itself is not held up.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const module = fileURLToPath(new URL('../../src/ranks/last-resort.ts', import.meta.url));
const run = (then: string) =>
  spawnSync(
    process.execPath,
    [
      '--import',
      'tsx',
      '--input-type=module',
      '-e',
      `import { endLater } from '${module}'; endLater('cpu', 'rank 1 is gone', 500); ${then}`,
    ],
    { encoding: 'utf8', timeout: 20_000 },
  );

it('ends a process that is stuck', () => {
  const { status, stderr } = run('for (;;);');
  expect(status).toBe(1);
  expect(stderr).toBe('rank 1 is gone\n');
});

it('leaves alone one that ends', () => {
  const { status, stderr } = run('process.exitCode = 3');
  expect(status).toBe(3);
  expect(stderr).toBe('');
});

it('ends one that is stuck on its way out', () => {
  const { status, stderr } = run("process.on('exit', () => { for (;;); }); process.exit(3)");
  expect(status).toBe(1);
  expect(stderr).toBe('rank 1 is gone\n');
});
