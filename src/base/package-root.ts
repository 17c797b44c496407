// Finds this package's folder, from src/ (tsx) and from dist/ (compiled).
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lazily } from './lazily.ts';

let folder = dirname(fileURLToPath(import.meta.url));
while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
/** The folder that holds this package's package.json. */
export const packageRoot: string = folder;
/** The folder of recorded curves (report/compare/reference.ts). */
export const referenceFolder = join(packageRoot, 'data', 'reference');

export const packageDescription = (): { name: string; version: string; engines: { node: string } } =>
  JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'));

/** The package's name and version: "gpt2.ts 0.1.0". */
export function programVersion(): string {
  const { name, version } = packageDescription();
  return `${name} ${version}`;
}

/**
 * The commit of this git clone, with "-dirty" if files differ from the commit; undefined outside a clone, or if git fails. Only the
 * first call asks git: the clone may change after this process has loaded its code.
 */
export const packageCommit = lazily((): string | undefined => {
  if (!existsSync(join(packageRoot, '.git'))) return undefined;
  const describe = ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  return spawnSync('git', describe, { cwd: packageRoot, encoding: 'utf8' }).stdout?.trim() || undefined;
});
