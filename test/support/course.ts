// The rungs of the kernel course: folders in kernels/course/CHAPTER/, with a card, or with kernels that a program run.ts launches.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { cardFiles } from '../../src/kernels/card.ts';
import { packageRoot } from '../../src/package-root.ts';

export const course = join(packageRoot, 'kernels/course');

const foldersIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name));

/** Paths, in the order of chapters and rungs. */
export const allRungs: readonly string[] = foldersIn(course).flatMap(foldersIn);

/** Those with a card. */
export const rungs: readonly string[] = allRungs.filter((folder) =>
  cardFiles.some((name) => existsSync(join(folder, name))),
);
