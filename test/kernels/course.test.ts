// The course's kernels as far as they can be tested without a GPU: every op of a training step has a naive one, the sources compile,
// and launches name kernels that are there. test/gpu/course.test.ts runs them.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { chapters } from '../../src/lab/ladder.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import { testOp } from '../../src/lab/test-op.ts';
import { Device } from '../../src/native/device.ts';
import { findNvrtc } from '../../src/native/nvrtc.ts';
import { compiledFile } from '../../src/ops/kernels/compile.ts';
import { type LoadedCard, loadCards } from '../../src/ops/kernels/kernel-card.ts';
import { useCards } from '../../src/ops/kernels/use-cards.ts';
import { variantNamed } from '../../src/ops/variants.ts';
import { workplace } from '../support/cli.ts';
import { allRungs, cards, course, naiveCards } from '../support/course.ts';

const rungOf = ({ folder }: LoadedCard) => relative(course, folder);

const place = workplace();

it('has every rung in the table of its README, once and in order', () => {
  const table = readFileSync(join(course, 'README.md'), 'utf8');
  const listed = [...table.matchAll(/^\| \[(.+?)\]\((\S+?\/\1)\//gm)].map(([, , rung]) => rung!);
  const places = allRungs.map((folder) => relative(course, folder));
  const inOrder = ['first-kernel', 'reductions', ...chapters, 'launches'];
  expect(listed).toEqual(inOrder.flatMap((chapter) => places.filter((rung) => dirname(rung) === chapter)));
  expect(listed).toHaveLength(places.length);
});

it('has a naive kernel for every plain op of a training step', () => {
  const step = [
    ...['embedding_forward', 'norm_forward.layernorm', 'matmul_forward', 'attention_forward'],
    ...['gelu_forward', 'residual_forward'],
    ...['cross_entropy', 'loss_sum', 'matmul_backward_input', 'matmul_backward_weight', 'gelu_backward'],
    ...['norm_backward.layernorm', 'attention_backward', 'embedding_backward', 'global_norm', 'adamw'],
  ];
  expect(naiveCards.map(({ op }) => op).sort()).toEqual(step.sort());
});

const help = spawnSync('nvcc', ['--help'], { encoding: 'utf8' }).stdout || undefined;
const hasCompiler = findNvrtc() !== undefined || help !== undefined;
const typeNames = { fp32: 'float', tf32: 'float', bf16: '__nv_bfloat16', fp8: '__nv_bfloat16' };
describe.skipIf(!hasCompiler)('compiles, and launches what it has (needs nvcc or NVRTC)', () => {
  const symbolsOf = new Map<string, string>();
  // bf16 where a card has it: the emulator below compiles fp32, and test/gpu/course.test.ts every dtype.
  const all = cards.map((card) => [rungOf(card), card.op, (card.dtypes ?? ['fp32']).at(-1)!, card] as const);
  // As scripts/build-cuda --check: almost without optimization, which is most of the time. A GPU's tests optimize.
  beforeAll(() => void (help?.includes('--Ofast-compile') && vi.stubEnv('NVCC_APPEND_FLAGS', '--Ofast-compile=max')));
  afterAll(() => void vi.unstubAllEnvs());
  it.each(all)('%s: %s, %s', (_, op, dtype, { folder, source, instantiate, launches, scratch }) => {
    const defines = { ELEMENT: typeNames[dtype], GRADIENT: typeNames[dtype] };
    const path = compiledFile({ file: join(folder, source), defines, instantiate }, '9.0');
    symbolsOf.set(path, symbolsOf.get(path) ?? readFileSync(path, 'latin1'));
    const cases = casesNamed(op);
    const { tensors } = cases.variant.op;
    for (const sizes of cases.sizes) {
      const given = Object.fromEntries(Object.keys(tensors).map((tensor) => [tensor, { type: 'fp32' }]));
      for (const { kernel, grid, block } of launches({ ...sizes, ...given, accumulate: true, scratch: {} })) {
        const [name] = kernel.split('<') as [string];
        expect(symbolsOf.get(path)).toContain(`_Z${name.length}${name}`);
        for (const size of [grid, block].flat()) expect(Number.isInteger(size) && size! > 0).toBe(true);
      }
      expect(Number.isInteger(scratch?.(sizes) ?? 0)).toBe(true);
    }
  });
});

const isOfTensorCores = ({ dtypes = ['fp32'] }: LoadedCard) => !dtypes.includes('fp32');
it('has rungs with tensor cores', () => {
  expect(new Set(cards.filter(isOfTensorCores).map(rungOf))).toEqual(
    new Set(['attention/4-tensor-cores', 'matmul/7-tensor-cores', 'matmul/8-pipeline']),
  );
});

describe('is right on the emulated GPU, without a race or a bad access', () => {
  it.each(cards.map((card) => [rungOf(card), card.op, card] as const))('%s: %s', async (_, _op, card) => {
    using device = Device.open({ kind: 'cpu' });
    // A CPU's tensors are fp32, but the cards take the place of its ops.
    if (isOfTensorCores(card)) Object.assign(device, { dtype: 'bf16', elementType: 'bf16', gradientType: 'bf16' });
    await useCards(device, [card], { checks: true });
    let tested = 0;
    for await (const { sizes, isRight, lines } of testOp(device, casesNamed(card.op), { once: true })) {
      expect(isRight, [sizes, ...lines].join('\n')).toBe(true);
      tested++;
    }
    expect(tested).toBeGreaterThan(0);
  });
});

describe('programs of rungs without a card, on the GPU where there is one, else emulated', () => {
  const output = (...args: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', 'tsx', ...args], { encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    return stdout;
  };

  const withProgram = allRungs.filter((folder) => existsSync(join(folder, 'run.ts')));
  it.each(withProgram.map((folder) => relative(course, folder)))('%s', (rung) => {
    expect(output(join(course, rung, 'run.ts'))).toMatch(/^\w+: .+ sums, 0 wrong\n$/);
  });

  it('launches: a launch each, a graph and one kernel give the same numbers', () => {
    const rows = output(join(course, 'launches/run.ts')).matchAll(/^(.+): (the same|other) numbers, /gm);
    expect([...rows].map(([, way, numbers]) => [way, numbers])).toEqual(
      ['launches', 'a graph', 'one kernel'].map((way) => [way, 'the same']),
    );
  });

  // Without checks the emulator runs blocks on all cores, in any order.
  it.each(['', '--no-checks'])('reductions %s: right, and the same bits in every run but for atomics', (option) => {
    const lines = output(join(course, 'reductions/run.ts'), option).trimEnd();
    const rows = lines.split('\n').map((line) => /^(\S+): error (\S+), (\d) different/.exec(line)!.slice(1));
    expect(rows.map(([rung]) => rung)).toEqual(
      readdirSync(join(course, 'reductions')).filter((name) => /^\d/.test(name)),
    );
    for (const [rung, error, different] of rows) {
      const isAtomic = rung === '1-atomics';
      // A number left out is an error of 3e-6. A running sum is rounded 300,000 times, that of a tree 24 times.
      expect(Number(error), rung).toBeLessThan(isAtomic ? 1e-3 : 1e-6);
      if (!isAtomic) expect(different, rung).toBe('1');
    }
  });
});

it('a folder without a card, an unknown op, two cards of one op, and another dtype are refused', async () => {
  await expect(loadCards(place.folder)).rejects.toThrow(
    /^there is no kernel card in .*: name a folder with a card\.ts or card\.mjs$/,
  );
  expect(() => variantNamed('layer_norm')).toThrow('there is no op "layer_norm": name one of embedding_forward, ');
  expect(() => variantNamed('matmul_gelu_forward')).toThrow('did you mean matmul_forward.gelu?');
  expect(() => variantNamed('layernorm_forward')).toThrow('did you mean norm_forward.layernorm?');
  using device = Device.open({ kind: 'cpu' });
  const gelu = cards.find(({ op }) => op === 'gelu_forward')!;
  await expect(useCards(device, [gelu, gelu])).rejects.toThrow('two kernel cards compute gelu_forward: give one');
  // A CPU's tensors are fp32 in bf16 too.
  using rounding = Device.open({ kind: 'cpu', dtype: 'bf16' });
  for (const each of [device, rounding]) {
    await expect(useCards(each, [{ ...gelu, dtypes: ['bf16'] }])).rejects.toThrow(/takes bf16, not fp32$/);
  }
  await useCards(rounding, [{ ...gelu, dtypes: ['fp32'] }]);
});
