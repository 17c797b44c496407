// The linear layer in its three directions: against sums in double, against its own differences, at ragged sizes.
import { describe, expect, it, vi } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import { Device } from '../../src/native/device.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import { floats, held, Random } from '../../src/ops/cases/case-numbers.ts';
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

/** A device on a code path of the CPU library. */
function openPath(path: string): Device {
  vi.stubEnv('GPT2_KERNELS', path);
  try {
    return Device.open({ kind: 'cpu', dtype: 'bf16' });
  } finally {
    vi.unstubAllEnvs();
  }
}

/** The code paths that this CPU has; the error about an unknown path lists them. */
function codePaths(): string[] {
  let message = '';
  try {
    openPath('abacus').close();
  } catch (error) {
    message = (error as Error).message;
  }
  return /one of (.*) on this CPU, got abacus/.exec(message)![1]!.split(', ');
}

const flushed = (value: number): number => (Math.abs(value) < 2 ** -126 ? 0 * value : value);

/** Numbers at start, start + step, ... */
type Line = readonly [values: Float32Array, start: number, step: number];

/**
 * The sum that AMX computes, over K products of bf16 numbers. The double a * b is exact, and fround(a * b + sum) is a fused
 * multiply-add.
 */
function amxSum(before: number, K: number, [a, ofA, stepA]: Line, [b, ofB, stepB]: Line): number {
  let total = flushed(before);
  for (let first = 0; first < K; first += 32) {
    const chains = [0, 0];
    for (let k = first; k < first + 32; k++) {
      const product = k < K ? flushed(a[ofA + k * stepA]!) * flushed(b[ofB + k * stepB]!) : 0;
      chains[k % 2] = flushed(Math.fround(product + chains[k % 2]!));
    }
    total = flushed(Math.fround(total + flushed(Math.fround(chains[0]! + chains[1]!))));
  }
  return total;
}

const bf16Sizes = [
  { N: 1, C: 100, O: 70 },
  { N: 33, C: 64, O: 49 },
  { N: 45, C: 1, O: 7 },
  { N: 70, C: 600, O: 40 },
];
// Denormal products, or operands of all kinds.
const bf16Numbers = {
  normal: (value: number) => value,
  tiny: (value: number, index: number) => value * 2 ** (-70 + (index % 16)),
  special: (value: number, index: number) =>
    [1e-41, Number.NaN, Number.POSITIVE_INFINITY, -1e38][((index * 7919) % 1009) - 1] ?? value,
};
const bf16Rows = Object.entries(bf16Numbers).flatMap(([name, change]) =>
  bf16Sizes.map((sizes) => ({ name, change, ...sizes })),
);

describeBackends(
  'matmul',
  (_, kind) => {
    describe.runIf(kind === 'cpu')('on every code path of this CPU', () => {
      it.each(bf16Rows)("has the bits of AMX's order, $name, N $N C $C O $O", ({ change, N, C, O }) => {
        const random = new Random(N + C);
        const draw = (count: number) => random.normals(count).map(change);
        const [x, w, d, before] = [draw(N * C), draw(O * C), draw(N * O), draw(O * C)];
        const [rx, rw, rd] = [held('bf16', x), held('bf16', w), held('bf16', d)];
        const each = (rows: number, columns: number, at: (row: number, column: number) => number) =>
          Float32Array.from({ length: rows * columns }, (_, i) => at(Math.floor(i / columns), i % columns));
        const wanted = {
          out: each(N, O, (n, o) => amxSum(0, C, [rx, n * C, 1], [rw, o * C, 1])),
          din: each(N, C, (n, c) => amxSum(0, O, [rd, n * O, 1], [rw, c, C])),
          dweight: each(O, C, (o, c) => amxSum(before[o * C + c]!, N, [rd, o, O], [rx, c, C])),
        };
        for (const path of codePaths()) {
          using opened = openPath(path);
          expect(opened.description.codePath).toBe(path);
          using bench = new TensorBench(opened);
          opened.reserveWorkspace(matmulScratch(opened, { N, C, O, gradients: true }));
          const [input, weight] = [bench.tensor('in', [N, C], x), bench.tensor('weight', [O, C], w)];
          const dout = bench.tensor('dout', [N, O], d);
          const results = {
            out: bench.tensor('out', [N, O]),
            din: bench.tensor('din', [N, C]),
            dweight: bench.tensor('dweight', [O, C], before),
          };
          matmulForward(opened, { out: results.out, in: input, weight, bias: null, ...forward });
          matmulBackwardInput(opened, { din: results.din, dout, weight, ...backward });
          matmulBackwardWeight(opened, { dweight: results.dweight, dbias: null, dout, in: input, accumulate: true });
          for (const [name, values] of Object.entries(wanted)) {
            const found = floats(results[name as keyof typeof results]);
            const differing = [...values.keys()].filter((index) => !Object.is(values[index], found[index]));
            expect(
              differing.map((index) => [index, found[index], values[index]]),
              `${path}: ${name}`,
            ).toEqual([]);
          }
          bench.checkGuards();
        }
      });
    });
  },
  { dtypes: ['bf16'] },
);
