// Identifies a card's kernels by a hash of the contents of the card, its source, and all files that they import or include.
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { explained } from '../../base/errors.ts';
import { packageRoot } from '../../base/package-root.ts';
import { importedFiles, includedFiles } from './includes.ts';
import { type LoadedCard, loadCards } from './kernel-card.ts';

/** A card's hash, 16 hexadecimal digits. @throws Gpt2Error if the card's source cannot be read */
export function cardHash({ op, file, folder, source }: LoadedCard): string {
  const path = join(folder, source);
  const text = explained(`the kernels ${path} of the card of ${op} cannot be read`, 'correct its source', () =>
    readFileSync(path, 'utf8'),
  );
  const included = includedFiles(text, folder, [folder, join(packageRoot, 'cuda')]).values();
  const content = [op, readFileSync(file, 'utf8'), ...importedFiles(file).values(), text, ...included];
  return hash('sha256', JSON.stringify(content)).slice(0, 16);
}

/** All cards' ops and hashes in one line, sorted: "gelu_forward 0123456789abcdef, ..."; undefined without cards. */
export const cardHashes = (cards: readonly LoadedCard[]): string | undefined =>
  cards
    .map((card) => `${card.op} ${cardHash(card)}`)
    .sort()
    .join(', ') || undefined;

/** Loads the cards of all folders. @throws Gpt2Error as `loadCards` */
export async function loadFolders(folders: readonly string[] = []): Promise<readonly LoadedCard[]> {
  const cards: LoadedCard[] = [];
  for (const folder of folders) cards.push(...(await loadCards(folder)));
  return cards;
}
