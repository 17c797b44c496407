// Matmuls in bf16 have the same bits on every code path of the CPU.
import { describe, expect, it, vi } from 'vitest';
import { GPT2_ACTIVATION } from '../../src/native/bindings.generated.ts';
import { Device } from '../../src/native/device.ts';
import { floats, held, Random } from '../../src/ops/cases/case-numbers.ts';
import {
  matmulBackwardInput,
  matmulBackwardWeight,
  matmulForward,
  matmulScratch,
} from '../../src/ops/ops.generated.ts';
import { describeBackends } from '../support/backends.ts';
import { refusalOf } from '../support/refusal.ts';
import { TensorBench } from '../support/tensors.ts';

const activation = GPT2_ACTIVATION.GPT2_NO_ACTIVATION;
const forward = { pre: null, residual: null, activation };
const backward = { pre: null, activated: null, activation };

/** A device on a code path of the CPU library. */
function openPath(path: string): Device {
  vi.stubEnv('GPT2_KERNELS', path);
  return Device.open({ kind: 'cpu', dtype: 'bf16' });
}

/** The code paths that this CPU has; the error about an unknown path lists them. */
function codePaths(): string[] {
  const message = refusalOf(() => openPath('abacus').close());
  return /one of (.*) on this CPU, got abacus/.exec(message!)![1]!.split(', ');
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
