// Writes the bundles of the report's and the live page's scripts and styles to dist/; the last step of `npm run build:ts`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../src/base/package-root.ts';
import { bundle, bundleNames } from '../src/report/bundle.ts';

const folder = join(packageRoot, 'dist', 'report', 'page');
mkdirSync(folder, { recursive: true });
for (const name of bundleNames) writeFileSync(join(folder, name), bundle(name));
