// Finds this package's folder, from src/ (tsx) and from dist/ (compiled), and how its commands are typed.
import { spawnSync } from 'node:child_process';
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

/** The commit of a clone, with "-dirty" if files differ from it; undefined: this is none, or git cannot tell. */
export function packageCommit(): string | undefined {
  if (!existsSync(join(packageRoot, '.git'))) return undefined;
  const describe = ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'];
  return spawnSync('git', describe, { cwd: packageRoot, encoding: 'utf8' }).stdout?.trim() || undefined;
}

/** Whether this is an installed package, and not a clone. */
export const isInstalled: boolean = packageRoot.split(sep).includes('node_modules');

/** Whether commands are typed with npx, which runs dist/; the npm scripts of a clone run src/. */
export const isCompiled: boolean = import.meta.url.endsWith('.js');

/** A text whose commands are those of a clone's npm scripts; with the commands to type where npx or a package runs them. */
export function asTyped(text: string, { compiled = isCompiled, installed = isInstalled } = {}): string {
  const run = compiled ? text.split('\n').map(withNpx).join('\n') : text;
  return installed ? run.replaceAll(/npm run (build:\w+)/g, 'npm --prefix node_modules/gpt2.ts run $1') : run;
}

/** A line whose npm scripts are commands of npx. What follows a command in a column of its own stays there. */
function withNpx(line: string): string {
  const [all, command, rest] = /^(.*?\S) {2,}(?=\S)(.*)$/.exec(line) ?? [];
  if (all !== undefined) return withNpx(command!).padEnd(all.length - rest!.length) + withNpx(rest!);
  const ours = 'npm run (?:--silent )?(?=(?:gpt2|prepro|train|sample|eval|compare|bench)\\b)';
  return line
    .replaceAll(new RegExp(`(${ours}[^\`]*?) -- `, 'g'), '$1 ')
    .replaceAll(new RegExp(`${ours}(?:gpt2 )?`, 'g'), 'npx gpt2 ');
}

/** A path or name as one word of a command line, in quotes if it needs them. */
export const shellWord = (text: string): string =>
  /^[\w./=,@:-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
