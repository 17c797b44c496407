// The table of GPUs in docs/runs.md: what was measured on an H100 also fits by the plan, and only there.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { largestBatch } from '../../../scripts/docs-fits.ts';

const folder = new URL('../../../benchmarks/h100/', import.meta.url);
const measured = readdirSync(folder)
  .map((name) => ({ name, size: /^(d\d+)-b(\d+)-t1024\.json$/.exec(name) }))
  .filter(({ size }) => size !== null)
  .map(({ name, size }) => {
    const { memory } = JSON.parse(readFileSync(new URL(name, folder), 'utf8'));
    return { model: size![1]!, batch: Number(size![2]), gib: (memory.used + memory.before) / 2 ** 30 };
  });

describe.each(measured)('$model with batch $batch, which took $gib GiB', ({ model, batch, gib }) => {
  const largest = (given: number) => largestBatch(model, 'bf16', 'none', given);

  it('fits a GPU with 5% more, reserves included, and none with less', () => {
    expect(largest(gib * 1.05 + 0.5)).toBeGreaterThanOrEqual(batch);
    expect(largest(gib * 0.99)).toBeLessThan(batch);
  });
});

it('stronger recomputation never fits less', () => {
  const batches = (['none', 'gelu', 'block'] as const).map((each) => largestBatch('d36', 'bf16', each, 24));
  expect(batches).toEqual([...batches].sort((a, b) => a - b));
  expect(new Set(batches).size).toBe(3);
});
