// The last step of `npm run build:ts`. Writes to dist/ the scripts and styles of the report and the live page, and dist/bundle/: the
// program in few files, which starts in half the time of its 381 modules (0.24 instead of 0.49 s of CPU time, most of it for files).
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { build, type Plugin } from 'esbuild';
import { packageRoot } from '../src/base/package-root.ts';
import { bundle, bundleNames } from '../src/report/bundle.ts';

const dist = join(packageRoot, 'dist');
const page = join(dist, 'report', 'page');
mkdirSync(page, { recursive: true });
for (const name of bundleNames) writeFileSync(join(page, name), bundle(name));

const outdir = join(dist, 'bundle');
/** In a bundled module import.meta.url stays the module's URL in dist/, by which it finds threads and files. Cards import the bundle. */
const keepUrls: Plugin = {
  name: 'keep URLs',
  setup: ({ onLoad }) =>
    onLoad({ filter: /\/dist\/.*\.js$/ }, ({ path }) => {
      const url = path.endsWith('import-card.js') ? path.replace(dist, outdir) : path;
      const text = `new URL(${JSON.stringify(`./${relative(outdir, url)}`)}, import.meta.url).href`;
      return { contents: readFileSync(path, 'utf8').replace(/(?<!')import\.meta\.url/g, text) };
    }),
};
const { dependencies } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));
const licence = readFileSync(join(packageRoot, 'node_modules/zod/LICENSE'), 'utf8');
rmSync(outdir, { recursive: true, force: true });
/**
 * Modules in dist/ that start as a thread or as the kernel process. Each becomes an import of its bundle: the thread that writes
 * checkpoints then starts in 95 instead of 165 ms of CPU time.
 */
const threads = readdirSync(dist, { recursive: true, encoding: 'utf8' })
  .filter((name) => /(?<!start)[/-]thread\.js$|^lab\/child\.js$/.test(name))
  .map((name) => join(dist, name));
await build({
  entryPoints: [join(dist, 'cli.js'), join(dist, 'index.js'), ...threads],
  outdir,
  entryNames: '[name]',
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  plugins: [keepUrls],
  // Bundle zod, the dependency with the most files. Zod's licence must be in every copy of zod.
  external: ['esbuild', '@resvg/resvg-js', 'tokenizers', ...Object.keys(dependencies).filter((name) => name !== 'zod')],
  banner: { js: `/* zod:\n${licence}*/` },
});
for (const path of threads)
  writeFileSync(path, `import ${JSON.stringify(relative(dirname(path), join(outdir, basename(path))))};\n`);
