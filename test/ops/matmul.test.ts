// Matmuls on every code path of the CPU: in bf16 their bits, in fp32 their errors, and what becomes of infinities and NaN; that
// neither the sizes of a product nor the form of a classifier's gradient between its ops change bits.
import { describe, expect, it } from 'vitest';
import type { Dtype } from '../../src/native/device.ts';
import { floats, held, Random } from '../../src/ops/cases/case-numbers.ts';
import { sizesOf } from '../../src/ops/cases/op-case.ts';
import { codePaths, describeBackends, openPath } from '../support/backends.ts';
import { TensorBench } from '../support/tensors.ts';

type Sizes = { N: number; C: number; O: number };
type Operands = { x: Float32Array; w: Float32Array; d: Float32Array; before: Float32Array };

/** The products of the three directions, on a code path; that of weights is added to `before`. */
function products(path: string, dtype: Dtype, sizes: Sizes, { x, w, d, before }: Operands) {
  using opened = openPath(path, dtype);
  expect(opened.description.codePath).toBe(path);
  using bench = new TensorBench(opened);
  const { out, in: input, weight } = bench.call('matmul_forward', sizes, { in: x, weight: w, bias: null });
  const { din, dout } = bench.call('matmul_backward_input', sizes, { dout: d, weight });
  const adding = { dweight: before, dbias: null, dout, in: input };
  const { dweight } = bench.call('matmul_backward_weight', { ...sizes, accumulate: 1 }, adding);
  return { out: floats(out), din: floats(din), dweight: floats(dweight) };
}

const each = (rows: number, columns: number, at: (row: number, column: number) => number) =>
  Float64Array.from({ length: rows * columns }, (_, i) => at(Math.floor(i / columns), i % columns));

/** Numbers of the same products by `sum`, which adds K products to a number. */
const numbersBy = (sum: typeof amxSum, { N, C, O }: Sizes, { x, w, d, before }: Operands) => ({
  out: (n: number, o: number) => sum(0, C, [x, n * C, 1], [w, o * C, 1]),
  din: (n: number, c: number) => sum(0, O, [d, n * O, 1], [w, c, C]),
  dweight: (o: number, c: number) => sum(before[o * C + c]!, N, [d, o, O], [x, c, C]),
});

function wantedBy(sum: typeof amxSum, sizes: Sizes, operands: Operands) {
  const { N, C, O } = sizes;
  const { out, din, dweight } = numbersBy(sum, sizes, operands);
  return { out: each(N, O, out), din: each(N, C, din), dweight: each(O, C, dweight) };
}

function doubleSum(before: number, K: number, [a, ofA, stepA]: Line, [b, ofB, stepB]: Line): number {
  let total = before;
  for (let k = 0; k < K; k++) total += a[ofA + k * stepA]! * b[ofB + k * stepB]!;
  return total;
}

const drawn = ({ N, C, O }: Sizes, change: (value: number, index: number) => number): Operands => {
  const random = new Random(N + C);
  const draw = (count: number) => random.normals(count).map(change);
  return { x: draw(N * C), w: draw(O * C), d: draw(N * O), before: draw(O * C) };
};

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

const bf16Sizes = sizesOf('N C O', '1x100x70 33x64x49 45x1x7 70x600x40');
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
/** More rows than are computed in place; long sums in each direction. Numbers under 1.2e-38 may be 0 on AMX. */
const fp32Rows = (['normal', 'special'] as const).flatMap((name) =>
  [...bf16Sizes, ...sizesOf('N C O', '40x800x33 256x48x33 40x384x1536')]
    .filter(({ N }) => N > 8)
    .map((sizes) => ({ name, change: bf16Numbers[name], ...sizes })),
);

describeBackends(
  'matmul',
  (_, kind) => {
    describe.runIf(kind === 'cpu')('on every code path of this CPU', () => {
      it.each(bf16Rows)("has the bits of AMX's order, $name, N $N C $C O $O", ({ change, ...sizes }) => {
        const operands = drawn(sizes, change);
        const { x, w, d, before } = operands;
        const rounded = { x: held('bf16', x), w: held('bf16', w), d: held('bf16', d), before };
        for (const path of codePaths()) {
          const found = products(path, 'bf16', sizes, operands);
          for (const [name, values] of Object.entries(wantedBy(amxSum, sizes, rounded))) {
            const result = found[name as keyof typeof found];
            const differing = [...values.keys()].filter((index) => !Object.is(values[index], result[index]));
            expect(
              differing.map((index) => [index, result[index], values[index]]),
              `${path}: ${name}`,
            ).toEqual([]);
          }
        }
      });
    });
  },
  { dtypes: ['bf16'] },
);

describeBackends(
  'matmul',
  (_, kind) => {
    describe.runIf(kind === 'cpu')('on every code path of this CPU', () => {
      it.each(fp32Rows)(
        'has errors of fp32, and no finite sum of what is not finite, $name, N $N C $C O $O',
        ({ change, ...sizes }) => {
          const operands = drawn(sizes, change);
          const wanted = Object.entries(wantedBy(doubleSum, sizes, operands));
          for (const path of codePaths()) {
            const found = products(path, 'fp32', sizes, operands);
            for (const [name, values] of wanted) {
              const result = found[name as keyof typeof found];
              const finite = [...values.keys()].filter((index) => Math.abs(values[index]!) < 3e38);
              const lost = [...values.keys()].filter(
                (index) => !(Math.abs(values[index]!) < 3.5e38) && Number.isFinite(result[index]),
              );
              expect(lost, `${path}: ${name} finite`).toEqual([]);
              const square = (of: (index: number) => number) =>
                finite.reduce((sum, index) => sum + of(index) ** 2, 0) / finite.length;
              if (finite.length < values.length) continue;
              const error = square((index) => result[index]! - values[index]!) / square((index) => values[index]!);
              expect(Math.sqrt(error), `${path}: ${name}`).toBeLessThan(4e-7);
            }
          }
        },
      );
    });
  },
  { dtypes: ['fp32'] },
);

/** din and dweight of a classifier; with a bias's gradient, the gradient of its logits stays in fp32. */
function classifierGradients(path: string, dtype: Dtype, softcap: number, spoiled: number, biased: boolean) {
  using opened = openPath(path, dtype);
  using bench = new TensorBench(opened);
  const { N, C, V, Vp } = { N: 70, C: 100, V: 150, Vp: 160 };
  const { x, w, before } = drawn({ N, C, O: Vp }, (value) => value);
  x[5] = spoiled;
  const targets = Int32Array.from({ length: N }, (_, n) => (n % 9 === 4 ? -1 : (n * 37) % V));
  const sizes = { N, C, V, Vp, dloss: 0.1, softcap, accumulate: 1 };
  const given = { dweight: before, in: x, weight: w, bias: null, targets, ...(biased ? {} : { dbias: null }) };
  const { din, dweight } = bench.call('classifier', sizes, given);
  return [floats(din), floats(dweight)];
}

describeBackends(
  'matmul',
  (_, kind) => {
    describe.runIf(kind === 'cpu').each(['bf16', 'fp32'] as const)('in %s on every code path of this CPU', (dtype) => {
      // Three blocks of rows, which share columns of B along lines of memory; more columns than are shared at once, across them.
      it.each(sizesOf('N C O', '1100x1700x200 600x3700x1700'))(
        'has the bits of a product of a few rows in each row of many, N $N C $C O $O',
        ({ N, C, O }) => {
          const few = 10;
          const { x, w, d, before } = drawn({ N, C, O }, (value) => value);
          const ofFewRows = { x: x.subarray(0, few * C), w, d: d.subarray(0, few * O), before };
          const ofFewColumns = {
            ...{ x, w: w.subarray(0, few * C), before: before.subarray(0, few * C) },
            d: Float32Array.from(each(N, few, (n, o) => d[n * O + o]!)),
          };
          const rounded = { x: held('bf16', x), w: held('bf16', w), d: held('bf16', d), before };
          const numbers = numbersBy(amxSum, { N, C, O }, rounded);
          for (const path of codePaths()) {
            const all = products(path, dtype, { N, C, O }, { x, w, d, before });
            const { out, din } = products(path, dtype, { N: few, C, O }, ofFewRows);
            const { dweight } = products(path, dtype, { N, C, O: few }, ofFewColumns);
            for (const [name, values] of Object.entries({ out, din, dweight })) {
              const found = all[name as keyof typeof all];
              expect(
                values.findIndex((value, index) => value !== found[index]),
                `${path}: ${name}`,
              ).toBe(-1);
              const columns = name === 'out' ? O : C;
              for (let index = 0; index < found.length && dtype === 'bf16'; index += 20011) {
                const wanted = numbers[name as keyof typeof all](Math.floor(index / columns), index % columns);
                expect(found[index], `${path}: ${name}[${index}]`).toBe(wanted);
              }
            }
          }
        },
        60_000,
      );

      // Padding's gradient is 0 even in a row of NaN.
      it.each([
        [0, 1],
        [3, 1],
        [0, Number.NaN],
      ])('has the bits of a gradient in fp32 in a classifier that rounds it, softcap %d, an input %d', (...sizes) => {
        for (const path of codePaths()) {
          const [rounded, exact] = [false, true].map((biased) => classifierGradients(path, dtype, ...sizes, biased));
          expect(rounded, path).toEqual(exact);
        }
      });
    });
  },
  { dtypes: ['fp32'] },
);
