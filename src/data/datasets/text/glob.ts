// Matches paths with globs: * and ? stop at a slash, ** does not.

const meanings: Readonly<Record<string, string>> = { '**/': '(?:.*/)?', '**': '.*', '*': '[^/]*', '?': '[^/]' };

/**
 * Whether a path matches one of the globs. A glob without a slash is compared with the file's name alone.
 * @param path relative, divided by slashes
 * @example matchesGlob('notes/2026/may.md', ['*.md', 'drafts/**']); // true
 */
export const matchesGlob = (path: string, globs: readonly string[]): boolean =>
  globs.some((glob) => expressionOf(glob).test(glob.includes('/') ? path : path.slice(path.lastIndexOf('/') + 1)));

function expressionOf(glob: string): RegExp {
  const parts = glob.split(/(\*\*\/|\*\*|\*|\?)/);
  const source = parts.map((part) => meanings[part] ?? part.replaceAll(/[\\^$.+()[\]{}|]/g, '\\$&'));
  return new RegExp(`^${source.join('')}$`, 'su');
}
