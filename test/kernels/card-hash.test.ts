// The hash of a card: of what it says, its source and what that includes, wherever they are.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { newKernel } from '../../src/lab/new-kernel.ts';
import { cardHashes, loadFolders } from '../../src/ops/kernels/card-hash.ts';
import { checkSameKernels } from '../../src/train/run/same-inputs.ts';
import { workplace } from '../support/cli.ts';
import { edit } from '../support/lab.ts';

const place = workplace();
const hashes = async (...names: readonly string[]) =>
  cardHashes(await loadFolders(names.map((name) => place.path(name))));

it('follows what its kernels are made of, not where they are', async () => {
  newKernel(place.path('a'), ['gelu_forward', 'gelu_backward']);
  const before = await hashes('a');
  expect(before).toMatch(/^gelu_backward [0-9a-f]{16}, gelu_forward [0-9a-f]{16}$/);
  mkdirSync(place.path('far'));
  cpSync(place.path('a'), place.path('far/b'), { recursive: true });
  expect(await hashes('far/b')).toBe(before);
  const source = place.path('a/gelu.cu');
  const text = readFileSync(source, 'utf8');
  place.file('a/factor.h', '#define FACTOR 1\n');
  writeFileSync(source, `#include "factor.h"\n${text}`);
  const including = await hashes('a');
  expect(including).not.toBe(before);
  place.file('a/factor.h', '#define FACTOR 2\n');
  expect(await hashes('a')).not.toBe(including);
  writeFileSync(source, text);
  expect(await hashes('a')).toBe(before);
  const card = place.path('far/b/card.ts');
  edit(card, (text) => text.replaceAll('256', '128'));
  expect(await hashes('far/b')).not.toBe(before);
  place.file('far/launches.mjs', 'export const threads = 64;\n');
  edit(card, (text) => `import { threads } from '../launches.mjs';\n${text.replaceAll('128', 'threads')}`);
  const importing = await hashes('far/b');
  place.file('far/launches.mjs', 'export const threads = 32;\n');
  expect(await hashes('far/b')).not.toBe(importing);
});

it('is of all folders together; without any there is none', async () => {
  newKernel(place.path('norm'), ['norm_forward.layernorm']);
  expect((await hashes('norm', 'a'))!.split(', ').map((each) => each.split(' ')[0])).toEqual([
    ...['gelu_backward', 'gelu_forward', 'norm_forward.layernorm'],
  ]);
  expect(await hashes()).toBeUndefined();
});

it('a missing source is named', async () => {
  rmSync(place.path('norm/layernorm.cu'));
  await expect(hashes('norm')).rejects.toThrow(
    /^the kernels .*norm\/layernorm\.cu of the card of norm_forward\.layernorm cannot be read: ENOENT.*; correct its source$/,
  );
});

it.each([
  [
    'gelu_forward aa',
    'gelu_forward bb',
    ['k'],
    'it was trained with gelu_forward aa, now there are gelu_forward bb; restore the files of k',
  ],
  [
    'gelu_forward aa',
    undefined,
    [],
    'it was trained with gelu_forward aa, now there are none; restore the files of its kernels',
  ],
  [undefined, 'gelu_forward bb', ['k'], 'it was trained with none, now there are gelu_forward bb; leave out --kernel'],
])('a run of %s does not resume with %s', (before, now, folders, message) => {
  expect(() => checkSameKernels('runs/a', before, now, folders)).toThrow(
    `cannot resume runs/a with other kernels: ${message}, or start another run`,
  );
  expect(() => checkSameKernels('runs/a', now, now, folders)).not.toThrow();
});
