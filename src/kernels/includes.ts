// The files that a source includes, as far as they are the user's or ours. CUDA's own headers change with the compiler's version.
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Paths and contents, in the order in which they are found; each once. */
export function includedFiles(text: string, folder: string, folders: readonly string[]): Map<string, string> {
  const files = new Map<string, string>();
  const visit = (content: string, own: string): void => {
    for (const [, name] of content.matchAll(/^\s*#\s*include\s*["<]([^">]+)[">]/gm)) {
      const path = [own, ...folders].map((each) => join(each, name!)).find((each) => existsSync(each));
      if (path === undefined || files.has(path)) continue;
      files.set(path, readFileSync(path, 'utf8'));
      visit(files.get(path)!, dirname(path));
    }
  };
  visit(text, folder);
  return files;
}
