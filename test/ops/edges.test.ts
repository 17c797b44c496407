// Ops where their cases do not come: numbers at the limits, and sums of very many terms.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { describeBackends } from '../support/backends.ts';
import { expectClose, TensorBench } from '../support/tensors.ts';

describeBackends('edges', (device) => {
  it('gelu is the identity far right, zero far left, and carries NaN', () => {
    using bench = new TensorBench(device());
    const { out } = bench.call('gelu_forward', { count: 5 }, { in: [1e4, -1e4, 0, Number.NaN, 3e38] });
    const [right, left, zero, nan, huge] = floats(out);
    expect([right, left === 0, zero, Number.isNaN(nan), huge]).toEqual([1e4, true, 0, true, Math.fround(3e38)]);
  });

  it('loss_sum sums in double, overwriting or adding', () => {
    using bench = new TensorBench(device());
    const count = 100_000;
    const losses = new Float32Array(count).fill(0.1);
    const { step } = bench.call(
      'loss_sum',
      { N: count, scale: 1 / count, accumulate: 0 },
      { step: new Float32Array(GPT2_STEP.GPT2_STEP_SIZE).fill(7), losses },
    );
    const sum = () => floats(step)[GPT2_STEP.GPT2_STEP_LOSS]!;
    expect(sum()).toBe(Math.fround(0.1));
    bench.call('loss_sum', { N: count, scale: 1 / count, accumulate: 1 }, { step, losses });
    expect(sum()).toBe(Math.fround(0.2));
    expect(floats(step).filter((value) => value === 7).length).toBe(GPT2_STEP.GPT2_STEP_SIZE - 1);
  });

  it('normalize_matrices divides a matrix of zeros by eps, and its neighbour by its norm', () => {
    using bench = new TensorBench(device());
    const sizes = { M: 2, R: 1, K: 4, margin: 1, eps: 1e-7 };
    const { matrices } = bench.call('normalize_matrices', sizes, { matrices: [0, 0, 0, 0, 3, 0, 0, 4] });
    const [zeros, other] = [floats(matrices).subarray(0, 4), floats(matrices).subarray(4)];
    expect([...zeros]).toEqual([0, 0, 0, 0]);
    for (const [index, wanted] of [0.6, 0, 0, 0.8].entries()) expect(other[index]).toBeCloseTo(wanted, 6);
  });

  it.each([
    [1e-5, 0],
    [0, Number.NaN],
  ])('norm_forward: RMSNorm of a row of zeros with eps %d is %d', (eps, result) => {
    using bench = new TensorBench(device());
    const given = { in: new Float32Array(8), weight: new Float32Array(8).fill(1) };
    const { out } = bench.call('norm_forward.rmsnorm', { N: 1, C: 8, eps }, given);
    expect([...floats(out)]).toEqual(new Array(8).fill(result));
  });

  it('norm_backward sums the gradients of many rows without drift', () => {
    using bench = new TensorBench(device());
    const [N, C] = [20_000, 16];
    const { dbias } = bench.call(
      'norm_backward.layernorm',
      { N, C, accumulate: 0 },
      {
        ...{ dout: new Float32Array(N * C).fill(0.1), in: new Random(2).normals(N * C), dresidual: null },
        ...{ weight: new Float32Array(C).fill(1), mean: new Float32Array(N), rstd: new Float32Array(N).fill(1) },
      },
    );
    // 20,000 equal terms added one by one in fp32 would be off by 1e-4 and more.
    expectClose('dbias', floats(dbias), new Float64Array(C).fill(N * Math.fround(0.1)), 1e-6);
  });
});
