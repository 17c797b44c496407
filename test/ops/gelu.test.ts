// GELU, tanh form: against its formula in double over a wide range, its own differences, in place.
import { expect, it } from 'vitest';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { gelu, geluDerivative } from '../../src/ops/cases/gelu.ts';
import { geluBackward, geluForward } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { checkGradient, dot, expectClose, TensorBench } from '../support/tensors.ts';

const wide = [...Array.from({ length: 97 }, (_, index) => (index - 48) / 4), 0, 1e-6, -1e-6, 100, -100];

describeBackends('gelu', (device) => {
  it('equals its formula over a wide range, backward in place', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [wide.length], Float32Array.from(wide));
    const out = bench.tensor('out', [wide.length]);
    geluForward(device(), { out, in: input });
    expectClose('out', floats(out), Float64Array.from(wide, gelu), 1e-6);
    const dout = new Random(2).normals(wide.length);
    const gradient = bench.tensor('din', [wide.length], dout);
    geluBackward(device(), { din: gradient, dout: gradient, in: input });
    const wanted = Float64Array.from(wide, (value, index) => geluDerivative(value) * dout[index]!);
    expectClose('din, in place', floats(gradient), wanted, 1e-6);
    bench.checkGuards();
  });

  it('backward equals its own differences', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [91], new Random(1).normals(91, 2));
    const dout = bench.tensor('dout', [91], new Random(2).normals(91));
    const [out, din] = [bench.tensor('out', [91]), bench.tensor('din', [91])];
    const loss = () => {
      geluForward(device(), { out, in: input });
      return dot(floats(out), floats(dout));
    };
    geluBackward(device(), { din, dout, in: input });
    checkGradient('in', { input, gradient: floats(din), loss, random: new Random(1) });
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
