// Where this package lies on disk: the same from src/ (tsx) and from dist/ (compiled).
import { existsSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { fileURLToPath } from 'node:url';

function findPackageRoot(): string {
  let folder = dirname(fileURLToPath(import.meta.url));
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

/** The folder that holds this package's package.json. */
export const packageRoot: string = findPackageRoot();

const isInstalled = packageRoot.split(sep).includes('node_modules');

/** A text that names commands as they are typed in this repository, as they are typed where the package is installed. */
export function asTyped(text: string, installed = isInstalled): string {
  if (!installed) return text;
  return text
    .replaceAll('npm run gpt2 -- ', 'npx gpt2 ')
    .replaceAll(/npm run (prepro|train|sample|eval|compare|bench)( --(?= ))?/g, 'npx gpt2 $1')
    .replaceAll(/npm run (build:\w+)/g, 'npm --prefix node_modules/gpt2.ts run $1');
}
