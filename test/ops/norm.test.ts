// Layernorm and RMSNorm: layernorm against PyTorch, their own differences, the residual gradient that passes beside, many rows.
import { expect, it } from 'vitest';
import type { Device } from '../../src/native/device.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import { normBackward, normForward, normScratch } from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { checkGradient, dot, expectClose, TensorBench } from '../support/tensors.ts';

const notStored = { values: null, scale: null, norm: null };

interface Inputs {
  readonly in: Tensor;
  readonly weight: Tensor;
  /** null in RMSNorm */
  readonly bias: Tensor | null;
  readonly dout: Tensor;
}

/** Both directions of a norm on new tensors. */
function normOf(device: Device, bench: TensorBench, { dout, bias, ...inputs }: Inputs, eps = 1e-5) {
  const [N, C] = inputs.in.shape as [number, number];
  device.reserveWorkspace(normScratch(device, { N, C }));
  const [out, din] = [bench.tensor('out', [N, C]), bench.tensor('din', [N, C])];
  const [mean, rstd] = [bias && bench.tensor('mean', [N]), bench.tensor('rstd', [N])];
  const [dweight, dbias] = [bench.tensor('dweight', [C]), bias && bench.tensor('dbias', [C])];
  const loss = () => {
    normForward(device, { out, ...notStored, mean, rstd, ...inputs, bias, eps });
    return dot(floats(out), floats(dout));
  };
  const backward = (given: { din: Tensor; dresidual: Tensor | null; accumulate: boolean }) =>
    normBackward(device, { ...given, ...notStored, dweight, dbias, dout, ...inputs, mean, rstd });
  /** Runs both directions. */
  const checkGradients = () => {
    loss();
    backward({ din, dresidual: null, accumulate: false });
    const random = new Random(1);
    for (const [name, input, gradient] of [
      ['in', inputs.in, din],
      ['weight', inputs.weight, dweight],
      ['bias', bias, dbias],
    ] as const) {
      if (input && gradient) checkGradient(name, { input, gradient: floats(gradient), loss, random });
    }
  };
  return { out, din, mean, rstd, dweight, dbias, loss, backward, checkGradients };
}

describeBackends('norms', (device) => {
  it.each(opCases('layernorm'))('layernorm equals PyTorch, and backward its own differences: $name', ({ get }) => {
    using bench = new TensorBench(device());
    const fixture = (name: string) => bench.fixture(name, get(name));
    const inputs = { in: fixture('in'), weight: fixture('weight'), bias: fixture('bias'), dout: fixture('dout') };
    const { out, din, mean, rstd, dweight, dbias, loss, backward, checkGradients } = normOf(device(), bench, inputs);
    checkGradients();
    loss();
    for (const [name, tensor] of Object.entries({ out, mean, rstd, din, dweight, dbias })) {
      expectClose(name, floats(tensor!), get(name).values);
    }
    const dresidual = fixture('dresidual');
    backward({ din: dresidual, dresidual, accumulate: true });
    expectClose('din with residual, in place', floats(dresidual), get('dinWithResidual').values);
    for (const [name, tensor] of Object.entries({ dweight, dbias })) {
      const twice = get(name).values.map((value) => 2 * value);
      expectClose(`${name} +=`, floats(tensor!), twice);
    }
    bench.checkGuards();
  });

  it.each([
    { N: 6, C: 64, eps: 1e-5 },
    { N: 5, C: 37, eps: 0.3 },
  ])('backward of RMSNorm equals its own differences: $N x $C, eps $eps', ({ N, C, eps }) => {
    using bench = new TensorBench(device());
    const random = new Random(C);
    const input = bench.tensor('in', [N, C], random.normals(N * C, 2));
    const weight = bench.tensor('weight', [C], random.normals(C));
    const dout = bench.tensor('dout', [N, C], random.normals(N * C));
    normOf(device(), bench, { in: input, weight, bias: null, dout }, eps).checkGradients();
    bench.checkGuards();
  });

  it('RMSNorm of a row of zeros is zeros, unless eps is 0', () => {
    using bench = new TensorBench(device());
    const input = bench.tensor('in', [1, 8], new Float32Array(8));
    const weight = bench.tensor('weight', [8], new Float32Array(8).fill(1));
    for (const [eps, result] of [
      [1e-5, 0],
      [0, Number.NaN],
    ] as const) {
      const { out, loss } = normOf(device(), bench, { in: input, weight, bias: null, dout: input }, eps);
      loss();
      expect([...floats(out)]).toEqual(new Array(8).fill(result));
    }
  });

  it('sums the gradients of many rows without drift', () => {
    using bench = new TensorBench(device());
    const [N, C] = [20_000, 16];
    const input = bench.tensor('in', [N, C], new Random(2).normals(N * C));
    const weight = bench.tensor('weight', [C], new Float32Array(C).fill(1));
    const bias = bench.tensor('bias', [C], new Float32Array(C));
    const dout = bench.tensor('dout', [N, C], new Float32Array(N * C).fill(0.1));
    const { out, din, dbias, loss, backward } = normOf(device(), bench, { in: input, weight, bias, dout });
    loss();
    backward({ din, dresidual: null, accumulate: false });
    // 20,000 equal terms added one by one in fp32 would be off by 1e-4 and more.
    expectClose('dbias', floats(dbias!), new Float64Array(C).fill(N * Math.fround(0.1)), 1e-6);
    bench.checkGuards();
    expect(floats(out).every(Number.isFinite)).toBe(true);
  });

  it('a call of no variant is refused', () => {
    using bench = new TensorBench(device());
    const rows = (name: string) => bench.tensor(name, [2, 8]);
    const [weight, rstd] = [bench.tensor('weight', [8]), bench.tensor('rstd', [2])];
    const args = { out: rows('out'), ...notStored, mean: null, rstd, in: rows('in'), weight, bias: null, eps: 0 };
    const stored = { scale: bench.floats('scale', [2]), norm: bench.floats('norm', [2]) };
    const values = bench.tensor('values', [2, 8], undefined, 'fp8');
    for (const [changed, text] of [
      [{ out: null }, 'expected out != null || values != null'],
      [{ bias: weight }, 'expected both bias and mean, or neither'],
      [stored, 'expected both scale and values, or neither'],
      [{ ...stored, values }, 'expected values == null || C % 16 == 0, got C = 8'],
    ] as const) {
      expect(() => normForward(device(), { ...args, ...changed })).toThrow(`norm_forward: ${text}`);
    }
  });
});
