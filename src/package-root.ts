// Where this package lies on disk: the same from src/ (tsx) and from dist/ (compiled).
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

/** The folder that holds this package's package.json. */
export const packageRoot: string = findPackageRoot();

/** "gpt2.ts 0.1.0" */
export function programVersion(): string {
  const { name, version } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as Record<
    'name' | 'version',
    string
  >;
  return `${name} ${version}`;
}

/** Whether as a package, in whose place commands are typed with npx; else it is a repository, where npm runs them. */
export const isInstalled: boolean = packageRoot.split(sep).includes('node_modules');

/** A text that names commands as they are typed in this repository, as they are typed where the package is installed. */
export function asTyped(text: string, installed = isInstalled): string {
  if (!installed) return text;
  return text
    .replaceAll(/npm run (?:--silent )?gpt2 -- /g, 'npx gpt2 ')
    .replaceAll(/npm run (?:--silent )?(prepro|train|sample|eval|compare|bench)( --(?= ))?/g, 'npx gpt2 $1')
    .replaceAll(/npm run (build:\w+)/g, 'npm --prefix node_modules/gpt2.ts run $1');
}
