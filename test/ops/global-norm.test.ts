// The gradient norm and the clip factor: against their formula in double, and over so many elements that a running fp32 sum would show.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, norm as normOf, Random } from '../../src/ops/cases/case-numbers.ts';
import { globalNorm, globalNormScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

function normAndClip(bench: TensorBench, matrices: Tensor, vectors: Tensor, maxNorm: number) {
  const { device } = bench;
  device.reserveWorkspace(globalNormScratch(device, { matrixCount: matrices.count, vectorCount: vectors.count }));
  const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE], new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(1));
  globalNorm(device, { step, matrices, vectors, communicator: null, targets: 1, maxNorm });
  return { norm: floats(step)[GPT2_STEP.GPT2_STEP_NORM]!, clip: floats(step)[GPT2_STEP.GPT2_STEP_CLIP]! };
}

describeBackends('global-norm', (device) => {
  it.each([
    ['clipped', 1037, 0.5, 1],
    ['within', 1037, 0.01, 1],
    ['off', 131, 3, 0],
  ])('equals its formula: %s', (_, count, scale, maxNorm) => {
    using bench = new TensorBench(device());
    const random = new Random(2);
    const [matrices, vectors] = [random.normals(count, scale), random.normals(91, 2 * scale)];
    const { norm, clip } = normAndClip(
      bench,
      bench.tensor('matrices', [1, count], matrices),
      bench.tensor('vectors', [91], vectors),
      maxNorm,
    );
    const wanted = Math.hypot(normOf(matrices), normOf(vectors));
    // Both are rounded to fp32 once.
    expect(Math.abs(norm / wanted - 1)).toBeLessThan(2e-7);
    expect(Math.abs(clip / (maxNorm > 0 && wanted > maxNorm ? maxNorm / wanted : 1) - 1)).toBeLessThan(2e-7);
    bench.checkGuards();
  });

  it('holds over five million elements', () => {
    using bench = new TensorBench(device());
    const count = 5_000_003;
    const random = new Random(1);
    const values = Float32Array.from({ length: count }, () => random.uniform() * 1e-3);
    const matrices = bench.tensor('matrices', [1, count], values);
    const vectors = bench.tensor('vectors', [1], new Float32Array(1));
    let sum = 0;
    for (const value of values) sum += value * value;
    const { norm } = normAndClip(bench, matrices, vectors, 1);
    expect(Math.abs(norm / Math.sqrt(sum) - 1)).toBeLessThan(2e-7);
  });

  // [what, loss, gradient, loss limit, norm limit, after update, updated before, updated]
  const largest = 3.4028234663852886e38;
  it.each<[string, number, number, number, number, number, number, number]>([
    ['a finite loss and norm', 2, 3, largest, largest, 0, 0, 1],
    ['a loss of NaN', Number.NaN, 3, largest, largest, 0, 1, 0],
    ['an infinite loss', Number.POSITIVE_INFINITY, 3, largest, largest, 0, 1, 0],
    ['a gradient of NaN', 2, Number.NaN, largest, largest, 0, 1, 0],
    ['an infinite gradient', 2, Number.NEGATIVE_INFINITY, largest, largest, 0, 1, 0],
    ['a norm that fp32 cannot hold', 2, largest, largest, largest, 0, 1, 0],
    ['a loss at its limit', 2, 3, 2, 100, 0, 0, 1],
    ['a loss over its limit', 2.001, 3, 2, 100, 0, 1, 0],
    ['a norm over its limit', 2, 3, 2, 3, 0, 1, 0],
    ['the step after an update', 2, 3, largest, largest, 1, 1, 1],
    ['the step after one without', 2, 3, largest, largest, 1, 0, 0],
  ])('says whether the step updates: %s', (_, loss, gradient, lossLimit, normLimit, after, before, updated) => {
    using bench = new TensorBench(device());
    device().reserveWorkspace(globalNormScratch(device(), { matrixCount: 5, vectorCount: 3 }));
    const matrices = bench.tensor('matrices', [1, 5], new Float32Array(5).fill(gradient));
    const vectors = bench.tensor('vectors', [3], new Float32Array(3));
    const block = new Float32Array(GPT2_STEP.GPT2_STEP_SIZE);
    block[GPT2_STEP.GPT2_STEP_LOSS] = loss;
    block[GPT2_STEP.GPT2_STEP_TARGETS] = 1;
    block[GPT2_STEP.GPT2_STEP_LOSS_LIMIT] = lossLimit;
    block[GPT2_STEP.GPT2_STEP_NORM_LIMIT] = normLimit;
    block[GPT2_STEP.GPT2_STEP_AFTER_UPDATE] = after;
    block[GPT2_STEP.GPT2_STEP_UPDATED] = before;
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE], block);
    globalNorm(device(), { step, matrices, vectors, communicator: null, targets: 1, maxNorm: 1 });
    expect(floats(step)[GPT2_STEP.GPT2_STEP_UPDATED]).toBe(updated);
  });
});
