// The files that a source includes or a card imports, as far as they are the user's or ours. CUDA's own headers change with the compiler's
// version.
import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A folder of that name is for the compiler or for Node to refuse. */
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

/** Paths and contents, in the order in which they are found; each once. A macro that names a file may be included: it counts. */
export function includedFiles(text: string, folder: string, folders: readonly string[]): Map<string, string> {
  const files = new Map<string, string>();
  const visit = (content: string, here: string): void => {
    for (const [, name] of content.matchAll(/^\s*#\s*(?:include|define\s+\w+)\s*["<]([^">]+)[">]/gm)) {
      const path = [here, ...folders].map((each) => join(each, name!)).find(isFile);
      if (path === undefined || files.has(path)) continue;
      files.set(path, readFileSync(path, 'utf8'));
      visit(files.get(path)!, dirname(path));
    }
  };
  visit(text, folder);
  return files;
}

/** The files that a card imports by a relative path, and those that they import: paths and contents, each once. */
export function importedFiles(card: string): Map<string, string> {
  const files = new Map<string, string>();
  const visit = (content: string, folder: string): void => {
    for (const [, name] of content.matchAll(/^(?:import|export|\}).*?['"](\.{1,2}\/[^'"]+)['"]/gm)) {
      const path = join(folder, name!);
      if (files.has(path) || !isFile(path)) continue;
      files.set(path, readFileSync(path, 'utf8'));
      visit(files.get(path)!, dirname(path));
    }
  };
  visit(readFileSync(card, 'utf8'), dirname(card));
  return files;
}
