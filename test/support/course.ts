// The rungs of the kernel course: folders in kernels/course/CHAPTER/, with a card, or with kernels that a program run.ts launches.
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { packageRoot } from '../../src/base/package-root.ts';
import type { Dtype } from '../../src/native/device.ts';
import { cardFiles, type LoadedCard, loadCards } from '../../src/ops/kernels/kernel-card.ts';

export const course = join(packageRoot, 'kernels/course');

const foldersIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name));

/** Paths, in the order of chapters and rungs. */
export const allRungs: readonly string[] = foldersIn(course).flatMap(foldersIn);

/** All cards, in the order of rungs. The first chapters have rungs without one. */
export const cards: readonly LoadedCard[] = (
  await Promise.all(
    allRungs
      .filter((folder) => cardFiles.some((name) => existsSync(join(folder, name))))
      .map((rung) => loadCards(rung)),
  )
).flat();

export const naiveCards: readonly LoadedCard[] = cards.filter(({ folder }) => basename(folder) === '1-naive');

/** For each op the card of the last rung that takes a dtype. */
export const bestCards = (dtype: Dtype): readonly LoadedCard[] => [
  ...new Map(cards.filter(({ dtypes = ['fp32'] }) => dtypes.includes(dtype)).map((card) => [card.op, card])).values(),
];
