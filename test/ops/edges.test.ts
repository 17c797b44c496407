// Ops where their cases do not come: numbers at the limits, and sums of very many terms.
import { expect, it } from 'vitest';
import { GPT2_STEP } from '../../src/native/bindings.generated.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import {
  geluForward,
  lossSum,
  newtonSchulzScratch,
  normalizeMatrices,
  normBackward,
  normForward,
  normScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { expectClose, TensorBench } from '../support/tensors.ts';

const notStored = { values: null, scale: null, norm: null };

describeBackends('edges', (device) => {
  it('gelu is the identity far right, zero far left, and carries NaN', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [5], Float32Array.from([1e4, -1e4, 0, Number.NaN, 3e38]));
    const out = bench.tensor('out', [5]);
    geluForward(device(), { out, in: input });
    const [right, left, zero, nan, huge] = floats(out);
    expect([right, left === 0, zero, Number.isNaN(nan), huge]).toEqual([1e4, true, 0, true, Math.fround(3e38)]);
  });

  it('loss_sum sums in double, overwriting or adding', () => {
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

  it('normalize_matrices divides a matrix of zeros by eps, and its neighbour by its norm', () => {
    using bench = new TensorBench(device());
    const matrices = bench.tensor('matrices', [2, 1, 4], [0, 0, 0, 0, 3, 0, 0, 4]);
    device().reserveWorkspace(newtonSchulzScratch(device(), { M: 2, R: 1, K: 4 }));
    normalizeMatrices(device(), { matrices, margin: 1, eps: 1e-7 });
    const [zeros, other] = [floats(matrices).subarray(0, 4), floats(matrices).subarray(4)];
    expect([...zeros]).toEqual([0, 0, 0, 0]);
    for (const [index, wanted] of [0.6, 0, 0, 0.8].entries()) expect(other[index]).toBeCloseTo(wanted, 6);
    bench.checkGuards();
  });

  it.each([
    [1e-5, 0],
    [0, Number.NaN],
  ])('norm_forward: RMSNorm of a row of zeros with eps %d is %d', (eps, result) => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [1, 8], new Float32Array(8));
    const weight = bench.tensor('weight', [8], new Float32Array(8).fill(1));
    const [out, rstd] = [bench.tensor('out', [1, 8]), bench.tensor('rstd', [1])];
    normForward(device(), { out, ...notStored, mean: null, rstd, in: input, weight, bias: null, eps });
    expect([...floats(out)]).toEqual(new Array(8).fill(result));
  });

  it('norm_backward sums the gradients of many rows without drift', () => {
    using bench = new TensorBench(device());
    const [N, C] = [20_000, 16];
    device().reserveWorkspace(normScratch(device(), { N, C }));
    const matrix = (name: string, values?: Float32Array) => bench.tensor(name, [N, C], values);
    const [mean, rstd] = [0, 1].map((value) => bench.tensor('statistic', [N], new Float32Array(N).fill(value)));
    const [dweight, dbias, weight] = [0, 0, 1].map((value) =>
      bench.tensor('row', [C], new Float32Array(C).fill(value)),
    );
    normBackward(device(), {
      ...{ din: matrix('din'), ...notStored, dresidual: null, dweight: dweight!, dbias: dbias!, accumulate: false },
      ...{ dout: matrix('dout', new Float32Array(N * C).fill(0.1)), in: matrix('in', new Random(2).normals(N * C)) },
      ...{ weight: weight!, mean: mean!, rstd: rstd! },
    });
    // 20,000 equal terms added one by one in fp32 would be off by 1e-4 and more.
    expectClose('dbias', floats(dbias!), new Float64Array(C).fill(N * Math.fround(0.1)), 1e-6);
    bench.checkGuards();
  });
});
