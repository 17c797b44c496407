// CUDA's functions on the emulator: rows of vocabulary.cu, which writes the lines of the wrong ones.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import { compileKernels } from '../../src/ops/kernels/compile.ts';
import { launch } from './kernel-cases.ts';

const source = readFileSync(join(import.meta.dirname, 'vocabulary.cu'), 'utf8');
const tests = [...source.matchAll(/^(?:TEST|NARROW_TEST)\((?:.*, )?(\w+)\)/gm)].map(([, name]) =>
  name!.replace(/2$/, '2s'),
);

describe.each([true, false])('with checks: %s', (checks) => {
  const device = Device.open({ kind: 'cpu', threads: 2 });
  let kernels: Awaited<ReturnType<typeof compileKernels>>;
  beforeAll(async () => {
    kernels = await compileKernels(device, { source, checks });
  });
  it.each(tests)('%s', (name) => {
    const [count, ...lines] = launch(device, kernels[name]!, { grid: 1, block: 32 });
    const wrong = lines
      .slice(0, new Int32Array(Float32Array.of(count!).buffer)[0])
      .map((line) => source.split('\n')[line - 1]);
    expect([...new Set(wrong)]).toEqual([]);
  });
});
