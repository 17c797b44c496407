// Layernorm: against PyTorch, its own differences, the residual gradient that passes beside it, many rows.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { layernormBackward, layernormForward, layernormScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { checkGradient, dot, expectClose, TensorBench } from '../support/tensors.ts';

describeBackends('layernorm', (device) => {
  it.each(opCases('layernorm'))('equals PyTorch, and backward its own differences: $name', ({ get, sizes }) => {
    using bench = new TensorBench(device());
    const { N, C } = sizes as { N: number; C: number };
    device().reserveWorkspace(layernormScratch(device(), { N, C }));
    const input = bench.fixture('in', get('in'));
    const weight = bench.fixture('weight', get('weight'));
    const bias = bench.fixture('bias', get('bias'));
    const dout = bench.fixture('dout', get('dout'));
    const dresidual = bench.fixture('dresidual', get('dresidual'));
    const out = bench.tensor('out', [N, C]);
    const mean = bench.tensor('mean', [N]);
    const rstd = bench.tensor('rstd', [N]);
    const loss = () => {
      layernormForward(device(), { out, mean, rstd, in: input, weight, bias });
      return dot(floats(out), floats(dout));
    };
    loss();
    expectClose('out', floats(out), get('out').values);
    expectClose('mean', floats(mean), get('mean').values);
    expectClose('rstd', floats(rstd), get('rstd').values);

    const dinput = bench.tensor('din', [N, C]);
    const dweight = bench.tensor('dweight', [C]);
    const dbias = bench.tensor('dbias', [C]);
    const gradients = { dweight, dbias, dout, in: input, weight, mean, rstd };
    layernormBackward(device(), { ...gradients, din: dinput, dresidual: null, accumulate: false });
    expectClose('din', floats(dinput), get('din').values);
    expectClose('dweight', floats(dweight), get('dweight').values);
    expectClose('dbias', floats(dbias), get('dbias').values);
    const random = new Random(1);
    checkGradient('in', { input: input, gradient: floats(dinput), loss, random });
    checkGradient('weight', { input: weight, gradient: floats(dweight), loss, random });
    checkGradient('bias', { input: bias, gradient: floats(dbias), loss, random });

    loss();
    layernormBackward(device(), { ...gradients, din: dresidual, dresidual, accumulate: true });
    expectClose('din with residual, in place', floats(dresidual), get('dinWithResidual').values);
    expectClose(
      'dweight +=',
      floats(dweight),
      get('dweight').values.map((value) => 2 * value),
    );
    expectClose(
      'dbias +=',
      floats(dbias),
      get('dbias').values.map((value) => 2 * value),
    );
    bench.checkGuards();
  });

  it('sums the gradients of many rows without drift', () => {
    using bench = new TensorBench(device());
    const [N, C] = [20_000, 16];
    device().reserveWorkspace(layernormScratch(device(), { N, C }));
    const random = new Random(2);
    const input = bench.tensor('in', [N, C], random.normals(N * C));
    const weight = bench.tensor('weight', [C], new Float32Array(C).fill(1));
    const bias = bench.tensor('bias', [C], new Float32Array(C));
    const [out, dinput] = [bench.tensor('out', [N, C]), bench.tensor('din', [N, C])];
    const [mean, rstd] = [bench.tensor('mean', [N]), bench.tensor('rstd', [N])];
    const [dweight, dbias] = [bench.tensor('dweight', [C]), bench.tensor('dbias', [C])];
    const dout = bench.tensor('dout', [N, C], new Float32Array(N * C).fill(0.1));
    layernormForward(device(), { out, mean, rstd, in: input, weight, bias });
    layernormBackward(device(), {
      din: dinput,
      dweight,
      dbias,
      dout,
      dresidual: null,
      in: input,
      weight,
      mean,
      rstd,
      accumulate: false,
    });
    // 20,000 equal terms added one by one in fp32 would be off by 1e-4 and more.
    const wanted = new Float64Array(C).fill(N * Math.fround(0.1));
    expectClose('dbias', floats(dbias), wanted, 1e-6);
    bench.checkGuards();
    expect(floats(out).every(Number.isFinite)).toBe(true);
  });
});
