// The course's kernels as far as they can be tested without a GPU: every op of a training step has a naive one, the sources compile,
// and launches name kernels that are there. test/gpu/course.test.ts runs them.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { contractNamed, type LoadedCard, loadCards } from '../../src/kernels/card.ts';
import { compiledFile } from '../../src/kernels/compile.ts';
import { useCards } from '../../src/kernels/use-cards.ts';
import { casesNamed } from '../../src/lab/ops.ts';
import { testOp } from '../../src/lab/test-op.ts';
import { Device } from '../../src/native/device.ts';
import { findNvrtc } from '../../src/native/nvrtc.ts';
import { opCases } from '../../src/op-cases/index.ts';
import { Workplace } from '../support/cli.ts';
import { course, rungs } from '../support/course.ts';

const loaded: readonly LoadedCard[] = (await Promise.all(rungs.map(loadCards))).flat();
const rungOf = ({ folder }: LoadedCard) => relative(course, folder);

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
  vi.stubEnv('XDG_CACHE_HOME', place.path('cache'));
});
afterAll(() => {
  vi.unstubAllEnvs();
  place[Symbol.dispose]();
});

it('has a naive kernel for every plain op of a training step', () => {
  const step = [
    ...[
      'embedding_forward',
      'layernorm_forward',
      'matmul_forward',
      'attention_forward',
      'gelu_forward',
      'residual_forward',
    ],
    ...['cross_entropy', 'loss_sum', 'matmul_backward_input', 'matmul_backward_weight', 'gelu_backward'],
    ...['layernorm_backward', 'attention_backward', 'embedding_backward', 'global_norm', 'adamw'],
  ];
  const naive = loaded.filter(({ folder }) => basename(folder) === '1-naive');
  expect(naive.map(({ op }) => op).sort()).toEqual(step.sort());
});

const hasCompiler = findNvrtc() !== undefined || spawnSync('nvcc', ['--version']).status === 0;
const typeNames = { fp32: 'float', tf32: 'float', bf16: '__nv_bfloat16' };
describe.skipIf(!hasCompiler)('compiles, and launches what it has (needs nvcc or NVRTC)', () => {
  const symbolsOf = new Map<string, string>();
  const all = loaded.flatMap((card) =>
    (card.dtypes ?? ['fp32']).map((dtype) => [rungOf(card), card.op, dtype, card] as const),
  );
  it.each(all)('%s: %s, %s', (_, op, dtype, { folder, source, instantiate, launches, scratch }) => {
    const defines = { ELEMENT: typeNames[dtype], GRADIENT: typeNames[dtype] };
    const path = compiledFile({ file: join(folder, source), defines, instantiate }, '9.0');
    symbolsOf.set(path, symbolsOf.get(path) ?? readFileSync(path, 'latin1'));
    const { tensors, name } = contractNamed(op);
    const cases = Object.values(opCases)
      .flat()
      .find((each) => each.op.name === name)!;
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

// CPU devices are fp32, and the emulator has no tensor cores.
const emulated = loaded.filter(({ dtypes = ['fp32'] }) => dtypes.includes('fp32'));
describe('is right on the emulated GPU, without a race or a bad access', () => {
  it.each(emulated.map((card) => [rungOf(card), card.op, card] as const))('%s: %s', async (_, op, card) => {
    using device = Device.open({ kind: 'cpu' });
    await useCards(device, [card], { checks: true });
    let tested = 0;
    for await (const { sizes, isRight, lines } of testOp(device, casesNamed(op), { once: true })) {
      expect(isRight, [sizes, ...lines].join('\n')).toBe(true);
      tested++;
    }
    expect(tested).toBeGreaterThan(0);
  });
});

it('a folder without a card, an unknown op, two cards of one op, and another dtype are refused', async () => {
  await expect(loadCards(place.folder)).rejects.toThrow(
    /^there is no kernel card in .*: name a folder with a card\.ts or card\.mjs$/,
  );
  expect(() => contractNamed('layer_norm')).toThrow('there is no op "layer_norm": name one of embedding_forward, ');
  using device = Device.open({ kind: 'cpu' });
  const gelu = loaded.find(({ op }) => op === 'gelu_forward')!;
  await expect(useCards(device, [gelu, gelu])).rejects.toThrow('two kernel cards compute gelu_forward: give one');
  await expect(useCards(device, [{ ...gelu, dtypes: ['bf16'] }])).rejects.toThrow(/takes bf16, not fp32$/);
});
