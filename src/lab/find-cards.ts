// Finds the folders that hold kernel cards (card.ts or card.mjs).
import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expected } from '../base/errors.ts';
import { cardFiles, loadCards } from '../ops/kernels/kernel-card.ts';

/** Levels of folders to search below the root. A limit, because the root may be somebody's home. */
const deepest = 6;

/** Finds the cards in `root` and below, sorted by path. `ops`: a card's ops, or the error if the card cannot be loaded. */
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
      // Skip a folder that this user may not read.
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
    }
  }
}
