// The gradient norm and the clip factor: against PyTorch, and over so many elements that a running fp32 sum would show.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/buffer.ts';
import { globalNorm, globalNormScratch } from '../../src/ops/global-norm.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { floats, Random, TensorBench } from '../support/tensors.ts';

function normAndClip(bench: TensorBench, matrices: Tensor, vectors: Tensor, maxNorm: number) {
  const { device } = bench;
  device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
  const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE]);
  globalNorm(device, { step, matrices, vectors, maxNorm });
  return { norm: floats(step)[GPT2_STEP.GPT2_STEP_NORM]!, clip: floats(step)[GPT2_STEP.GPT2_STEP_CLIP]! };
}

describeBackends('global-norm', (device) => {
  it.each(opCases('global-norm'))('equals PyTorch: $name', ({ get, scalars }) => {
    using bench = new TensorBench(device());
    const matrices = bench.fixture('matrices', get('matrices'));
    const vectors = bench.fixture('vectors', get('vectors'));
    const { norm, clip } = normAndClip(bench, matrices, vectors, scalars.maxNorm as number);
    // Both are rounded to fp32 once.
    expect(Math.abs(norm / (scalars.norm as number) - 1)).toBeLessThan(2e-7);
    expect(Math.abs(clip / (scalars.clip as number) - 1)).toBeLessThan(2e-7);
    bench.checkGuards();
  });

  it('holds over five million elements', () => {
    using bench = new TensorBench(device());
    const count = 5_000_003;
    const random = new Random(1);
    const values = Float32Array.from({ length: count }, () => random.uniform() * 1e-3);
    const matrices = bench.tensor('matrices', [count], values);
    const vectors = bench.tensor('vectors', [1], new Float32Array(1));
    let sum = 0;
    for (const value of values) sum += value * value;
    const { norm } = normAndClip(bench, matrices, vectors, 1);
    expect(Math.abs(norm / Math.sqrt(sum) - 1)).toBeLessThan(2e-7);
  });
});
