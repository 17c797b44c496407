// The comparison of an op with its formula finds what is wrong: an error over its bound, NaN, a wrong accumulation, and a
// wrong result in one way of calling alone.
import { afterAll, expect, it } from 'vitest';
import { Device } from '../../src/native/device.ts';
import type { Tensor } from '../../src/native/tensor.ts';
import type { Numbers } from '../../src/ops/cases/case-numbers.ts';
import { fp8MatmulCases } from '../../src/ops/cases/fp8-matmul.ts';
import { normCases } from '../../src/ops/cases/norm.ts';
import { callingsOf, type OpCases } from '../../src/ops/cases/op-case.ts';
import { runCase } from '../../src/ops/cases/run-case.ts';
import { replaceOp } from '../../src/ops/replacements.ts';

const [forward, backward] = normCases as [OpCases, OpCases];
const sizes = { N: 5, C: 37, eps: 1e-5 };

const device = Device.open({ kind: 'cpu' });
afterAll(() => device.close());

/** The case with one result of its formula changed. */
const changed = (cases: OpCases, output: string, change: (values: Numbers) => Numbers): OpCases => ({
  ...cases,
  formula(inputs, own) {
    const results = cases.formula(inputs, own);
    return { ...results, [output]: change(results[output]!) };
  },
});
const wrongNames = async (cases: OpCases, variant?: Parameters<typeof runCase>[3]): Promise<string[]> =>
  (await runCase(device, cases, sizes, variant)).filter(({ isWithin }) => !isWithin).map(({ name }) => name);

it('is silent where the op is right', async () => {
  for (const variant of callingsOf(backward)) expect(await wrongNames(backward, variant)).toEqual([]);
});

const [, accumulating] = callingsOf(backward);
it.each<[what: string, output: string, change: (value: number, index: number) => number]>([
  ['an output that is off by a hundred-thousandth', 'out', (value) => value * (1 + 1e-5)],
  ['one wrong element among many', 'mean', (value, index) => (index === 3 ? value + 0.01 : value)],
  ['one NaN among many', 'mean', (value, index) => (index === 3 ? Number.NaN : value)],
  ['a sum that accumulates from another number', 'dbias', (value) => value + 1],
])('names %s', async (_, output, change) => {
  const [cases, calling, called] = output === 'dbias' ? [backward, accumulating, ' (+=)'] : [forward, undefined, ''];
  const off = changed(cases, output, (values) => Float64Array.from(values, change));
  expect(await wrongNames(off, calling)).toEqual([`${cases.variant.name}: ${output}${called}`]);
});

it('tries every way to call: accumulating, without the optional tensor, in place', () => {
  expect(callingsOf(backward)).toEqual([
    { accumulate: false, without: [], inPlace: {} },
    { accumulate: true, without: [], inPlace: {} },
    { accumulate: false, without: ['dresidual'], inPlace: {} },
    { accumulate: false, without: [], inPlace: { din: 'dout' } },
    { accumulate: false, without: [], inPlace: { din: 'dresidual' } },
  ]);
});

it('omits tensors that are NULL together', () => {
  const gelu = fp8MatmulCases.find(({ variant }) => variant.name === 'fp8_matmul_forward.gelu')!;
  expect(callingsOf(gelu).map(({ without }) => without)).toEqual([
    [],
    ['columnwise', 'columnwiseScale', 'inColumnwiseNorm'],
    ['bias'],
  ]);
});

it('finds a run that gives other bits, and accumulates from the same numbers in every run', async () => {
  const { variant } = backward;
  let runs = 0;
  // The library's op; a rounding of the third run is off.
  replaceOp(device, variant, ({ dbias }, native) => {
    device.call(variant.op.name as 'normBackward', native as never);
    runs++;
    if (runs !== 3) return;
    const sums = (dbias as Tensor).read() as Float32Array;
    (dbias as Tensor).write(sums.map((sum, index) => (index === 5 ? sum * (1 + 2 ** -22) : sum)));
  });
  const results = await runCase(device, backward, sizes, accumulating, 4);
  replaceOp(device, variant, undefined);
  const wrong = results.filter(({ isWithin }) => !isWithin);
  expect(wrong.map(({ name }) => name)).toEqual(['norm_backward.layernorm: dbias, other bits in run 3 (+=)']);
  expect(wrong[0]!.values.findIndex((value, index) => value !== wrong[0]!.wanted[index])).toBe(5);
  const right = await runCase(device, backward, sizes, accumulating, 4);
  expect(right.every(({ isWithin }) => isWithin)).toBe(true);
});
