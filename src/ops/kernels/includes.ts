// The files that a source includes or a card imports, if they are the user's or this package's. CUDA's headers need no hash: they
// change with the compiler's version.
import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A folder is no file: the compiler or Node will refuse it. */
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

/** Paths and contents of the included files, in order; each once. A file that a macro names counts, for `#include MACRO`. */
export const includedFiles = (text: string, folder: string, folders: readonly string[]): Map<string, string> =>
  filesNamedIn(text, /^\s*#\s*(?:include|define\s+\w+)\s*["<]([^">]+)[">]/gm, folder, folders);

/** Paths and contents of the files that a card imports by a relative path, directly or through others; each once. */
export const importedFiles = (card: string): Map<string, string> =>
  filesNamedIn(readFileSync(card, 'utf8'), /^(?:import|export|\}).*?['"](\.{1,2}\/[^'"]+)['"]/gm, dirname(card));

/** @param folders searched after the folder of the file that has the name */
function filesNamedIn(text: string, names: RegExp, folder: string, folders: readonly string[] = []) {
  const files = new Map<string, string>();
  const visit = (content: string, here: string): void => {
    for (const [, name] of content.matchAll(names)) {
      const path = [here, ...folders].map((each) => join(each, name!)).find(isFile);
      if (path === undefined || files.has(path)) continue;
      files.set(path, readFileSync(path, 'utf8'));
      visit(files.get(path)!, dirname(path));
    }
  };
  visit(text, folder);
  return files;
}
