// The rungs of the kernel course: folders with a card, in kernels/course/CHAPTER/.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/package-root.ts';

export const course = join(packageRoot, 'kernels/course');

const foldersIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => join(folder, name));

/** Paths, in the order of chapters and rungs. */
export const rungs: readonly string[] = foldersIn(course).flatMap(foldersIn);
