// Finds this package's folder, from src/ (tsx) and from dist/ (compiled), and how its commands are typed.
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

/** Whether this is an installed package, whose commands are typed with npx, and not a clone, where npm runs them. */
export const isInstalled: boolean = packageRoot.split(sep).includes('node_modules');

/** A text whose commands are as typed in a clone; in an installed package, with the commands to type there. */
export function asTyped(text: string, installed = isInstalled): string {
  if (!installed) return text;
  return text
    .replaceAll(/npm run (?:--silent )?gpt2 -- /g, 'npx gpt2 ')
    .replaceAll(/npm run (?:--silent )?(prepro|train|sample|eval|compare|bench)( --(?= ))?/g, 'npx gpt2 $1')
    .replaceAll(/npm run (build:\w+)/g, 'npm --prefix node_modules/gpt2.ts run $1');
}
