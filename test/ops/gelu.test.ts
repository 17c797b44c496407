// GELU, tanh form: against PyTorch over a wide range, its own differences, in place.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/op-cases/numbers.ts';
import { geluBackward, geluForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { checkGradient, dot, expectClose, TensorBench } from '../support/tensors.ts';

describeBackends('gelu', (device) => {
  it.each(opCases('gelu'))('equals PyTorch, and backward its own differences: $name', ({ name, get }) => {
    using bench = new TensorBench(device());
    const input = bench.fixture('in', get('in'));
    const dout = bench.fixture('dout', get('dout'));
    const out = bench.tensor('out', input.shape);
    const loss = () => {
      geluForward(device(), { out, in: input });
      return dot(floats(out), floats(dout));
    };
    loss();
    expectClose('out', floats(out), get('out').values, 1e-6);
    const gradient = bench.fixture('din', get('dout'));
    geluBackward(device(), { din: gradient, dout: gradient, in: input });
    expectClose('din, in place', floats(gradient), get('din').values, 1e-6);
    // Inputs up to 30 make the sum so large that its rounding hides a difference of 1e-2.
    if (name === 'gelu/normal')
      checkGradient('in', { input: input, gradient: floats(gradient), loss, random: new Random(1) });
    bench.checkGuards();
  });

  it('is the identity far right, zero far left, and carries NaN', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [5], Float32Array.from([1e4, -1e4, 0, Number.NaN, 3e38]));
    const out = bench.tensor('out', [5]);
    geluForward(device(), { out, in: input });
    const [right, left, zero, nan, huge] = floats(out);
    expect([right, left === 0, zero, Number.isNaN(nan), huge]).toEqual([1e4, true, 0, true, Math.fround(3e38)]);
  });
});
