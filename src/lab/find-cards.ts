// Finds the folders of kernel cards.
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expected } from '../base/errors.ts';
import { cardFiles, loadCards } from '../ops/kernels/kernel-card.ts';

/** Deeper folders are not searched: the working folder may be somebody's home. */
const deepest = 6;

/** The cards in and below a folder, in the order of their paths: their ops, or why a card cannot be loaded. */
export async function findCards(root: string) {
  const found = [];
  for (const folder of foldersIn(root, 0)) {
    const ops = await loadCards(folder).then((cards) => cards.map(({ op }) => op), expected);
    found.push({ folder: relative(root, folder) || '.', ops });
  }
  return found;
}

function* foldersIn(folder: string, depth: number): Generator<string> {
  const entries = readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1));
  if (entries.some((entry) => entry.isFile() && cardFiles.includes(entry.name))) yield folder;
  for (const entry of entries) {
    const isHidden = entry.name.startsWith('.') || entry.name === 'node_modules';
    if (!entry.isDirectory() || isHidden || depth === deepest) continue;
    try {
      yield* foldersIn(join(folder, entry.name), depth + 1);
    } catch (error) {
      // A folder of another user is skipped.
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
    }
  }
}
