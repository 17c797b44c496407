// Testing what computes an op: a line per size when it is right; a sentence and a map of where it is wrong. The op is the library's,
// with errors planted in its results.

import { afterAll, beforeEach, expect, it } from 'vitest';
import { casesNamed } from '../../src/lab/ops.ts';
import { sizesText, type TestedSize, testOp } from '../../src/lab/test-op.ts';
import { Device } from '../../src/native/device.ts';
import { Tensor } from '../../src/native/tensor.ts';
import { replaceOp } from '../../src/ops/replacements.ts';
import { variantNamed } from '../../src/ops/variants.ts';

const device = Device.open({ kind: 'cpu' });
afterAll(() => device.close());
beforeEach(() => replaceOp(device, variantNamed(layernorm), undefined));

const layernorm = 'norm_forward.layernorm';

async function tested(op = layernorm, allSizes = true): Promise<TestedSize[]> {
  const sizes: TestedSize[] = [];
  for await (const size of testOp(device, casesNamed(op), { allSizes })) sizes.push(size);
  return sizes;
}

type Change = (values: Float32Array, shape: readonly number[], args: Readonly<Record<string, unknown>>) => void;

/** Changes one output of an op after each call. The change gets its values and shape, and the arguments of the call. */
function plant(output: string, change: Change, name = layernorm): void {
  const variant = variantNamed(name);
  replaceOp(device, variant, (args, native) => {
    device.call(variant.op.name as 'adamw', native as never);
    const tensor = args[output] as Tensor;
    const values = tensor.read() as Float32Array;
    change(values, tensor.shape, args);
    tensor.write(values);
  });
}

it('a right op has a line for each size', async () => {
  const sizes = await tested();
  expect(sizes.map(({ sizes: text }) => text)).toEqual(casesNamed(layernorm).sizes.map(sizesText));
  for (const { isRight, lines } of sizes) {
    expect(isRight).toBe(true);
    expect(lines).toEqual([expect.stringMatching(/^right: 3 results, errors up to \d+% of the bound$/)]);
  }
});

it('a CPU tests the smallest sizes by default', async () => {
  const [all, few] = [await tested(), await tested(layernorm, false)];
  expect(few.length).toBeGreaterThan(2);
  expect(few.length).toBeLessThan(all.length);
});

it('a CPU never tests the sizes for GPUs', async () => {
  const few = { ...casesNamed(layernorm), sizes: [{ N: 2, C: 8, eps: 0.1 }], gpuSizes: [{ N: 3, C: 8 }] };
  const sizes: string[] = [];
  for await (const size of testOp(device, few, { allSizes: true })) sizes.push(size.sizes);
  expect(sizes).toEqual(['N 2, C 8, eps 0.1']);
});

it('a wrong one names the tensor and its elements, and draws the first', async () => {
  // The last 40 columns of every row from the 100th on are never written.
  plant('out', (values, [rows, columns]) => {
    for (let row = 100; row < rows!; row++) values.fill(Number.NaN, (row + 1) * columns! - 40, (row + 1) * columns!);
  });
  const [first, ...others] = await tested();
  expect(first!.isRight).toBe(false);
  expect(first!.lines[0]).toMatch(
    /^out is wrong in 1120 of 16384 elements \(1120 of them NaN: never written, or computed from NaN\); the first, \[100, 88\], is NaN, expected -?\d\.\d+$/,
  );
  expect(first!.lines[1]).toMatch(
    /^ {2}computed from in\[100, 88\] = -?\d\.\d+, weight\[88\] = -?\d\.\d+, bias\[88\] = -?\d\.\d+$/,
  );
  expect(first!.lines.slice(2)).toEqual([
    '  128 rows of 128, each mark 11 x 3 elements; # is wrong:',
    ...Array.from({ length: 9 }, () => `    ${'.'.repeat(43)}`),
    ...Array.from({ length: 3 }, () => `    ${'.'.repeat(29)}${'#'.repeat(14)}`),
  ]);
  expect(others.filter(({ isRight }) => !isRight).map(({ sizes, lines }) => [sizes, lines.length])).toEqual([
    ['N 130, C 768, eps 0.00001', 1],
    ['N 3000, C 384, eps 0.00001', 1],
  ]);
});

it('a variance in one pass is wrong where the mean is large', async () => {
  plant('rstd', (rstds, _, { in: x, eps }) => {
    const values = (x as Tensor).read() as Float32Array;
    const columns = values.length / rstds.length;
    for (const row of rstds.keys()) {
      let [sum, squares] = [0, 0];
      for (const value of values.subarray(row * columns, (row + 1) * columns)) {
        sum = Math.fround(sum + value);
        squares = Math.fround(squares + value * value);
      }
      rstds[row] = 1 / Math.sqrt(Math.fround(squares / columns) - Math.fround(sum / columns) ** 2 + (eps as number));
    }
  });
  const wrong = (await tested()).filter(({ isRight }) => !isRight);
  expect(wrong.map(({ sizes }) => sizes)).toEqual(['N 5, C 768, eps 0.00001, center 768, step 4']);
});

it('a long vector is wrapped, and small errors of all elements are found', async () => {
  plant('rstd', (values) => values.set(values.map((value) => value * (1 + 2e-5))));
  const { lines } = (await tested())[0]!;
  expect(lines[0]).toMatch(
    /^rstd is wrong in \d+ of 128 elements; the error is 2.0e-5, the bound .*e-.*; the first, \[\d+\], is /,
  );
  expect(lines[2]).toBe('  12 rows of 11; # is wrong:');
  // 128 elements are 11 rows and 7 more.
  expect(lines.at(-1)).toMatch(/^ {4}[.#]{7}$/);
});

it.each([
  // The elements, or the beginning of the row or column, that have the wrong element's indices.
  [
    'matmul_forward',
    'out',
    /^in\[0, 0 to 3 of \d+\] = (-?\S+, ){3}-?\S+, weight\[5, 0 to 3 of \d+\] = .*, bias\[5\] = -?\S+$/,
  ],
  ['embedding_forward', 'out', /^tokens\[0, 0\] = (\d+), wte\[\1, 5\] = -?\S+, wpe\[0 to 3 of \d+, 5\] = .*$/],
  [
    'norm_backward.layernorm',
    'dweight',
    /^dout\[0 to 3 of \d+, 5\] = .*, in\[0 to 3 of \d+, 5\] = .*, weight\[5\] = -?\S+$/,
  ],
  ['attention_backward', 'dqkv', /^(dout|out)\[0, 0, 0 to 3 of \d+\]/],
])('%s: says what the first wrong element of %s is computed from', async (op, tensor, inputs) => {
  const change: Change = (values) => {
    values[5]! += 100;
  };
  plant(tensor, change, op);
  const { wrong } = (await tested(op)).find(({ isRight }) => !isRight)!;
  expect(wrong!.inputs.join(', ')).toMatch(inputs);
});

it('other bits in another run are wrong', async () => {
  let runs = 0;
  plant('mean', (values) => {
    runs++;
    if (runs === 2) values[3]! *= 1 + 2 ** -23;
  });
  const [first] = await tested();
  expect(first!.lines[0]).toMatch(/^mean, other bits in run 2 is wrong in 1 of 128 elements; .* the first, \[3\], is /);
});

it('a write past the end is wrong', async () => {
  plant('out', (_values, _shape, { out }) => {
    const { buffer, count, type } = out as Tensor;
    new Tensor(buffer, 'past', type, [1], count * 4).write(Float32Array.of(1));
  });
  expect((await tested())[0]!.lines).toEqual(['out, past its end: something was written there']);
});
