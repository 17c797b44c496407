// Softmax and cross-entropy: against its formula in double, its own differences, padding columns, in place, the sum of losses.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { crossEntropy as formula } from '../../src/ops/cases/cross-entropy.ts';
import { crossEntropy, lossSum } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { checkGradient, expectClose, TensorBench } from '../support/tensors.ts';

describeBackends('cross-entropy', (device, kind) => {
  it.each([
    { N: 13, V: 53, Vp: 64, scale: 1, dloss: 1 / 13 },
    { N: 7, V: 130, Vp: 256, scale: 20, dloss: 0.5 },
  ])('equals its formula, and backward its own differences: $N rows of $V logits', ({ N, V, Vp, scale, dloss }) => {
    using bench = new TensorBench(device());
    const random = new Random(2);
    // Padding must not be read.
    const values = random.normals(N * Vp, scale).map((value, index) => (index % Vp < V ? value : 1e4));
    const ids = random
      .integers(N, V)
      .fill(0, 0, 1)
      .fill(-1, 2, 3)
      .fill(V - 1, -1);
    const wanted = formula(values, ids, { V, Vp, dloss });
    const logits = bench.tensor('logits', [N, Vp], values);
    const targets = bench.tensor('targets', [N], ids, 'int32');
    const losses = bench.tensor('losses', [N]);
    const dlogits = bench.tensor('dlogits', [N, Vp]);
    const op = { losses, logits, targets, V: V, dloss };
    const loss = () => {
      crossEntropy(device(), { ...op, dlogits: null });
      return floats(losses).reduce((sum, value) => sum + value, 0) * dloss;
    };
    loss();
    expectClose('losses', floats(losses), wanted.losses, 1e-6);
    crossEntropy(device(), { ...op, dlogits });
    expectClose('dlogits', floats(dlogits), wanted.dlogits);
    checkGradient('logits', {
      input: logits,
      gradient: floats(dlogits),
      loss,
      random: new Random(1),
      step: 3e-3,
      limit: 3e-3,
    });
    const apart = floats(dlogits);
    crossEntropy(device(), { ...op, dlogits: logits });
    expect(floats(logits)).toEqual(apart);
    for (let row = 0; row < N; row++) {
      expect(apart.subarray(row * Vp + V, (row + 1) * Vp).every((value) => value === 0)).toBe(true);
    }
    bench.checkGuards();
  });

  it.runIf(kind === 'cpu').each([-2, 53])('refuses the target %i of 53', (target) => {
    using bench = new TensorBench(device());
    const logits = bench.tensor('logits', [1, 64], new Float32Array(64));
    const targets = bench.tensor('targets', [1], Int32Array.from([target]), 'int32');
    const losses = bench.tensor('losses', [1]);
    expect(() => crossEntropy(device(), { losses, dlogits: null, logits, targets, V: 53, dloss: 1 })).toThrow(
      String(target),
    );
  });

  it('sums losses in double, overwriting or adding', () => {
    using bench = new TensorBench(device());
    const count = 100_000;
    const losses = bench.tensor('losses', [count], new Float32Array(count).fill(0.1));
    const step = bench.tensor('step', [GPT2_STEP.GPT2_STEP_SIZE], new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(7));
    const sum = () => floats(step)[GPT2_STEP.GPT2_STEP_LOSS]!;
    lossSum(device(), { step, losses, scale: 1 / count, accumulate: false });
    expect(sum()).toBe(Math.fround(0.1));
    lossSum(device(), { step, losses, scale: 1 / count, accumulate: true });
    expect(sum()).toBe(Math.fround(0.2));
    expect(floats(step).filter((value) => value === 7).length).toBe(GPT2_STEP.GPT2_STEP_SIZE - 1);
    bench.checkGuards();
  });
});
