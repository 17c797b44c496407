// The files that a source includes or a card imports, if they are the user's or this package's. CUDA's headers need no hash: they
// change with the compiler's version.
import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A folder is no file: the compiler or Node will refuse it. */
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

/** Paths and contents of the included files, in order; each once. A file that a macro names counts, for `#include MACRO`. */
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

/** Paths and contents of the files that a card imports by a relative path, directly or through others; each once. */
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
