// The linear layer in its three directions: against sums in double, against its own differences, at ragged sizes.
import { describe, expect, it } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, Random } from '../../src/ops/cases/case-numbers.ts';
import {
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { opCases } from '../support/fixtures.ts';
import { checkGradient, dot, expectClose, expectFormula, TensorBench } from '../support/tensors.ts';

// Ones, primes, just under and over the tile edges (6, 14, 16, 32), and a K that spans several cache blocks.
const sizes = [
  { N: 1, C: 1, O: 1 },
  { N: 3, C: 5, O: 7 },
  { N: 13, C: 24, O: 37 },
  { N: 31, C: 33, O: 65 },
  { N: 64, C: 64, O: 64 },
  { N: 67, C: 129, O: 191 },
  { N: 5, C: 1031, O: 17 },
  { N: 257, C: 48, O: 96 },
];

const activation = GPT2_ACTIVATION.GPT2_NO_ACTIVATION;
const forward = { pre: null, residual: null, activation };
const backward = { pre: null, activated: null, activation };

function setUp(bench: TensorBench, { N, C, O }: { N: number; C: number; O: number }) {
  const random = new Random(N * 1000 + C * 10 + O);
  bench.device.reserveWorkspace(matmulScratch(bench.device, { N, C, O, gradients: true }));
  return {
    in: bench.tensor('in', [N, C], random.normals(N * C)),
    weight: bench.tensor('weight', [O, C], random.normals(O * C)),
    bias: bench.tensor('bias', [O], random.normals(O)),
    dout: bench.tensor('dout', [N, O], random.normals(N * O)),
    out: bench.tensor('out', [N, O]),
    din: bench.tensor('din', [N, C]),
    random,
  };
}

describeBackends('matmul', (device) => {
  describe.each(['matmul_forward', 'matmul_backward_input', 'matmul_backward_weight'])('%s', (op) => {
    // A sum of C products in fp32 is off by about sqrt(C) half-ulps: 2e-6 at C = 1031.
    it.each(sizes)('N $N C $C O $O', (size) => expectFormula(device(), op, size, 5e-6));
  });

  it.each(opCases('matmul'))('equals PyTorch, and backward its own differences: $name', ({ get, has, sizes }) => {
    using bench = new TensorBench(device());
    const { N, C, O } = sizes as { N: number; C: number; O: number };
    device().reserveWorkspace(matmulScratch(device(), { N, C, O, gradients: true }));
    const [input, weight, dout] = ['in', 'weight', 'dout'].map((key) => bench.fixture(key, get(key))) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    const bias = has('bias') ? bench.fixture('bias', get('bias')) : null;
    const [out, dinput, dweight, dbias] = [[N, O], [N, C], [O, C], [O]].map((shape) =>
      bench.tensor('result', shape),
    ) as [Tensor, Tensor, Tensor, Tensor];
    const loss = () => {
      matmulForward(device(), { out, in: input, weight, bias, ...forward });
      return dot(floats(out), floats(dout));
    };
    loss();
    expectClose('out', floats(out), get('out').values);
    matmulBackwardInput(device(), { din: dinput, dout, weight, ...backward });
    expectClose('din', floats(dinput), get('din').values);
    matmulBackwardWeight(device(), { dweight, dbias: bias && dbias, dout, in: input, accumulate: false });
    expectClose('dweight', floats(dweight), get('dweight').values);
    const random = new Random(1);
    checkGradient('in', { input: input, gradient: floats(dinput), loss, random });
    checkGradient('weight', { input: weight, gradient: floats(dweight), loss, random });
    if (bias) {
      expectClose('dbias', floats(dbias), get('dbias').values);
      checkGradient('bias', { input: bias, gradient: floats(dbias), loss, random });
    }
    bench.checkGuards();
  });

  it('refuses tensors that the activation does not take', () => {
    using bench = new TensorBench(device());
    const { in: input, weight, bias, dout, din: dinput, out } = setUp(bench, { N: 3, C: 5, O: 7 });
    const call = (args: object) => () => matmulForward(device(), { out, in: input, weight, bias, ...forward, ...args });
    const { GPT2_GELU, GPT2_RELU_SQUARED } = GPT2_ACTIVATION;
    expect(call({ pre: dout })).toThrow('expected pre exactly where activation == 1, got activation = 0');
    expect(call({ activation: GPT2_GELU })).toThrow('expected pre exactly where activation == 1, got activation = 1');
    expect(call({ activation: GPT2_RELU_SQUARED, residual: dout })).toThrow(
      'expected residual only where activation == 0',
    );
    expect(call({ activation: 3 })).toThrow('expected activation >= 0 && activation <= 2, got activation = 3');
    const through = { ...backward, activation: GPT2_RELU_SQUARED };
    expect(() => matmulBackwardInput(device(), { din: dinput, dout, weight, ...through })).toThrow(
      'matmul_backward_input: expected activated exactly where activation == 2, got activation = 2',
    );
  });

  it('names the dimension that disagrees', () => {
    using bench = new TensorBench(device());
    const { in: input, weight } = setUp(bench, { N: 3, C: 5, O: 7 });
    const out = bench.tensor('out', [3, 8]);
    expect(() => matmulForward(device(), { out, in: input, weight, bias: null, ...forward })).toThrow(
      'matmul_forward: out [N,O] has O = 8, but weight has O = 7',
    );
  });
});
