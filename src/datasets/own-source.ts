// The data set of this package's own source and documentation, for work without a network. It changes with every version, so
// it has no recorded curves.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { packageRoot } from '../package-root.ts';
import type { DatasetSource } from './dataset.ts';

const places = ['src', 'cuda', 'scripts', 'docs', 'README.md'];
const source = `the files of gpt2.ts: ${places.join(', ')}`;

export const ownSource: DatasetSource = {
  name: 'own-source',
  description: "gpt2.ts's own source files; needs no network",
  prefix: 'own_source',
  sources: [source],
  validation: { lastDocumentsShare: 0.1 },
  async documents() {
    const paths = places.flatMap((place) => filesIn(join(packageRoot, place)));
    const sorted = paths
      .map((path) => relative(packageRoot, path))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const documents = sorted.map((path) => readFileSync(join(packageRoot, path), 'utf8'));
    return { source, documents: documents.filter((text) => text.trim() !== '') };
  },
};

function filesIn(path: string): string[] {
  if (!existsSync(path)) return [];
  if (statSync(path).isFile()) return [path];
  return readdirSync(path, { withFileTypes: true })
    .filter((entry) => !['__pycache__', 'images'].includes(entry.name))
    .flatMap((entry) =>
      entry.isDirectory() ? filesIn(join(path, entry.name)) : entry.isFile() ? [join(path, entry.name)] : [],
    );
}
