// RMSNorm: its own differences.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { layernormScratch, rmsnormBackward, rmsnormForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { checkGradient, dot, TensorBench } from '../support/tensors.ts';

describeBackends('rmsnorm', (device) => {
  it.each([
    { N: 6, C: 64, eps: 1e-5 },
    { N: 5, C: 37, eps: 0.3 },
  ])('backward equals its own differences: $N x $C, eps $eps', ({ N, C, eps }) => {
    using bench = new TensorBench(device());
    device().reserveWorkspace(layernormScratch(device(), { N, C }));
    const random = new Random(C);
    const input = bench.tensor('in', [N, C], random.normals(N * C, 2));
    const weight = bench.tensor('weight', [C], random.normals(C));
    const dout = bench.tensor('dout', [N, C], random.normals(N * C));
    const [out, rstd] = [bench.tensor('out', [N, C]), bench.tensor('rstd', [N])];
    const loss = () => {
      rmsnormForward(device(), { out, rstd, in: input, weight, eps });
      return dot(floats(out), floats(dout));
    };
    loss();
    const [dinput, dweight] = [bench.tensor('din', [N, C]), bench.tensor('dweight', [C])];
    rmsnormBackward(device(), {
      ...{ din: dinput, dweight, dout, dresidual: null, in: input, weight, rstd },
      accumulate: false,
    });
    checkGradient('in', { input, gradient: floats(dinput), loss, random });
    checkGradient('weight', { input: weight, gradient: floats(dweight), loss, random });
    bench.checkGuards();
  });

  it('a row of zeros stays one, unless eps is 0', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [1, 8], new Float32Array(8));
    const weight = bench.tensor('weight', [8], new Float32Array(8).fill(1));
    const [out, rstd] = [bench.tensor('out', [1, 8]), bench.tensor('rstd', [1])];
    const forward = (eps: number) => {
      rmsnormForward(device(), { out, rstd, in: input, weight, eps });
      return [...floats(out)];
    };
    expect(forward(1e-5)).toEqual(new Array(8).fill(0));
    expect(forward(0)).toEqual(new Array(8).fill(Number.NaN));
  });
});
