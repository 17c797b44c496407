// The examples with kernels: on the GPU where there is one, else emulated.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

function example(name: string): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', `examples/${name}.ts`], {
    encoding: 'utf8',
  });
  expect(status, stderr).toBe(0);
  return stdout;
}

it('hello-kernel', () => {
  const lines = [0, 1].flatMap((block) =>
    [0, 1, 2, 3].map((thread) => `hello from thread ${thread} of block ${block}`),
  );
  expect(example('hello-kernel').trim().split('\n').sort()).toEqual(lines.sort());
});

it('vector-add', () => {
  expect(example('vector-add')).toBe('1,000,000 sums, the largest error 0\n');
});

it('matrix-square', () => {
  expect(example('matrix-square')).toMatch(/^\d+\.\d\d ms, largest error \d(\.\d+)?(e-\d+)? in \[0,0\]\n$/);
});
