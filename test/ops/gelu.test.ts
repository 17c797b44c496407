// GELU, tanh form: against its formula in double over a wide range, its own differences, in place.
import { expect, it } from 'vitest';
import { gelu, geluDerivative } from '../../src/op-cases/gelu.ts';
import { floats, Random } from '../../src/op-cases/numbers.ts';
import { geluBackward, geluForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { checkGradient, dot, expectClose, TensorBench } from '../support/tensors.ts';

const wide = [...Array.from({ length: 97 }, (_, index) => (index - 48) / 4), 0, 1e-6, -1e-6, 100, -100];

describeBackends('gelu', (device) => {
  it.each([
    ['normal', new Random(5).normals(91, 2)],
    ['wide', Float32Array.from(wide)],
  ])('equals its formula, and backward its own differences: %s', (name, values) => {
    using bench = new TensorBench(device());
    const shape = [values.length];
    const weights = new Random(2).normals(values.length);
    const input = bench.tensor('in', shape, values);
    const dout = bench.tensor('dout', shape, weights);
    const out = bench.tensor('out', shape);
    const loss = () => {
      geluForward(device(), { out, in: input });
      return dot(floats(out), floats(dout));
    };
    loss();
    expectClose('out', floats(out), Float64Array.from(values, gelu), 1e-6);
    const gradient = bench.tensor('din', shape, weights);
    const wanted = Float64Array.from(values, (value, index) => geluDerivative(value) * weights[index]!);
    geluBackward(device(), { din: gradient, dout: gradient, in: input });
    expectClose('din, in place', floats(gradient), wanted, 1e-6);
    // Inputs up to 100 make the sum so large that its rounding hides a difference of 1e-2.
    if (name === 'normal') checkGradient('in', { input, gradient: floats(gradient), loss, random: new Random(1) });
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
