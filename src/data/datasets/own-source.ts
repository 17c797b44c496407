// The data set of this package's source and documentation, for work without a network. The text changes with every version, so no
// loss curves on this data set are recorded.
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { packageRoot } from '../../base/package-root.ts';
import type { DatasetSource } from './dataset.ts';
import { findInputs } from './text/inputs.ts';

const places = ['src', 'cuda', 'scripts', 'docs', 'README.md'];
const source = `the files of gpt2.ts: ${places.join(', ')}`;

export const ownSource: DatasetSource = {
  name: 'own-source',
  description: "gpt2.ts's own source files; needs no network",
  prefix: 'own_source',
  sources: [source],
  isOfPackage: true,
  validation: { lastDocumentsShare: 0.1 },
  async documents() {
    const folders = places.map((place) => join(packageRoot, place)).filter((path) => existsSync(path));
    const paths = findInputs(folders)
      .map(({ path }) => relative(packageRoot, path))
      .filter((path) => !/(^|\/)(__pycache__|images)\//.test(path))
      .sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const documents = paths.map((path) => readFileSync(join(packageRoot, path), 'utf8'));
    return { source, documents: documents.filter((text) => text.trim() !== '') };
  },
};
