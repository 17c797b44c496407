// Bundles the browser scripts of the report and the live pages (page/) with the plot library uPlot: one text per script, and one style
// sheet. An installed package has the bundles in dist/ and needs no esbuild; a clone bundles on demand.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const bundleNames = ['page.js', 'live.js', 'watch.js', 'page.css'] as const;
export type BundleName = (typeof bundleNames)[number];

const folder = fileURLToPath(new URL('page', import.meta.url));

export const bundled = (name: BundleName): string =>
  import.meta.url.endsWith('.ts') ? bundle(name) : readFileSync(join(folder, name), 'utf8');

export function bundle(name: BundleName): string {
  const require = createRequire(import.meta.url);
  const { buildSync } = require('esbuild') as typeof import('esbuild');
  const licence = readFileSync(join(require.resolve('uplot'), '../../LICENSE'), 'utf8');
  const { outputFiles } = buildSync({
    entryPoints: [join(folder, name.replace(/js$/, 'ts'))],
    bundle: true,
    minify: true,
    write: false,
    format: 'iife',
    target: 'es2022',
    define: { 'import.meta.url': '""' },
    // Put the license of uPlot into every bundle, as the license requires.
    banner: { [name.endsWith('css') ? 'css' : 'js']: `/* uPlot:\n${licence}*/` },
  });
  return outputFiles[0]!.text;
}
