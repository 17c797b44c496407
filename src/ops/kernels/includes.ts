// Finds the files that a source includes or a card imports, for hashes. Only files of the user or of this package are found: CUDA's
// headers change only with the compiler's version, which is hashed instead.
import { readFileSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Whether a path is a file. The compiler or Node rejects an import of a folder. */
const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;

/** The contents of all included files, by path. A file name in the value of a macro counts as included, because of `#include MACRO`. */
export const includedFiles = (text: string, folder: string, folders: readonly string[]): Map<string, string> =>
  filesNamedIn(text, /^\s*#\s*(?:include|define\s+\w+)\s*["<]([^">]+)[">]/gm, folder, folders);

/** The contents of all files that a card imports by relative paths, directly or through other files, by path. */
export const importedFiles = (card: string): Map<string, string> =>
  filesNamedIn(readFileSync(card, 'utf8'), /^(?:import|export|\}).*?['"](\.{1,2}\/[^'"]+)['"]/gm, dirname(card));

/** Finds files that `names` matches in a text and in the found files. @param folders searched after the folder of the including file */
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
