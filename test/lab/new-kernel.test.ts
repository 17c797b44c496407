// `kernel list` and `kernel new`: a folder of each naive kernel compiles, and its card names the kernels of its source.
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { naiveKernels, newKernel } from '../../src/lab/new-kernel.ts';
import { findNvrtc } from '../../src/native/nvrtc.ts';
import { compiledFile } from '../../src/ops/kernels/compile.ts';
import { loadCards } from '../../src/ops/kernels/kernel-card.ts';
import { workplace } from '../support/cli.ts';
import { naiveCards } from '../support/course.ts';

const place = workplace();

it('finds every card of the naive kernels', () => {
  expect(naiveKernels().map(({ op }) => op)).toEqual(naiveCards.map(({ op }) => op));
});

const hasCompiler = findNvrtc() !== undefined || spawnSync('nvcc', ['--version']).status === 0;
describe.each(naiveKernels().map(({ op, kernels }) => [op, kernels] as const))('%s', (op, kernels) => {
  const folder = place.path('made', op);

  it('starts a folder with its kernels alone', async () => {
    const files = newKernel(folder, [op]);
    expect(readdirSync(folder).sort()).toEqual(files.map((file) => file.slice(folder.length + 1)).sort());
    const [card, ...others] = await loadCards(folder);
    expect(others).toEqual([]);
    expect(card!.op).toBe(op);
    const source = readFileSync(join(folder, card!.source), 'utf8');
    const names = [...source.matchAll(/^__global__ void (\w+)/gm)].map(([, name]) => name!);
    expect(names.sort()).toEqual([...kernels].sort());
    expect(readFileSync(join(folder, 'README.md'), 'utf8').trimEnd().split('\n')).toHaveLength(5);
  });

  it.skipIf(!hasCompiler)('that compiles (needs nvcc or NVRTC)', async () => {
    const { source } = (await loadCards(folder))[0]!;
    const defines = { ELEMENT: 'float', GRADIENT: 'float' };
    expect(compiledFile({ file: join(folder, source), defines }, '9.0')).toMatch(/\.cubin$/);
  });
});

it('refuses an op that is unknown or has no naive kernel, and a folder that exists', () => {
  const folder = place.path('taken');
  expect(() => newKernel(folder, ['gelu'])).toThrow(/^there is no op "gelu": did you mean gelu_forward\?$/);
  expect(() => newKernel(folder, ['elephant'])).toThrow(/^there is no op "elephant": name one of embedding_forward, /);
  expect(() => newKernel(folder, ['classifier'])).toThrow(
    /^there is no naive kernel of classifier to start from: name one of /,
  );
  mkdirSync(folder);
  expect(() => newKernel(folder, ['adamw'])).toThrow(
    `cannot make the folder ${folder}: it exists, and nothing is overwritten; name another one`,
  );
  expect(readdirSync(folder)).toEqual([]);
  writeFileSync(place.path('file'), '');
  expect(() => newKernel(place.path('file', 'x'), ['adamw'])).toThrow(/^cannot make the folder .*; name another one$/);
});

it('the commands print what they wrote and found', () => {
  const made = place.run(['kernel', 'new', 'work/mine', '--op', 'gelu_forward', '--op', 'adamw']);
  expect(made).toMatchObject({
    code: 0,
    stderr: '',
    stdout: 'wrote work/mine/card.ts, work/mine/gelu.cu, work/mine/optimizer.cu, work/mine/README.md\n',
  });
  mkdirSync(place.path('work/broken'));
  writeFileSync(place.path('work/broken/card.mjs'), 'export default [;');
  const { stdout } = place.ok(['kernel', 'list']);
  expect(stdout).toMatch(/^ {2}matmul_forward {2,}out = activation\(in \* weight\^T \+ bias\) \+ residual$/m);
  expect(stdout).toMatch(/^ {2}work\/mine {2,}gelu_forward, adamw$/m);
  expect(stdout).toMatch(/^ {2}work\/broken {2,}the kernel card .*card\.mjs cannot be loaded: .*; correct it/m);
});
