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

it('weight-average', () => {
  const numbers = [...example('weight-average').matchAll(/^\d+ {2}loss (\S+) {2}.* (\S+)$/gm)];
  const [losses, distances] = [1, 2].map((column) => numbers.map((row) => Number(row[column]))) as [number[], number[]];
  expect(losses).toHaveLength(20);
  expect(losses.at(-1)).toBeLessThan(losses[0]! - 0.5);
  // The first is 0.9 of a step; the steps go on in about one direction, of which the average is 9 steps behind.
  expect(distances[1]! / distances[0]!).toBeGreaterThan(1.5);
  expect(distances.at(-1)! / distances[0]!).toBeLessThan(10);
});
