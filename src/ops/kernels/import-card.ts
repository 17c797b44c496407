// Imports kernel cards (card.ts) from any folder. A card's import of 'gpt2.ts' finds this package even without a node_modules folder. A
// Node version that cannot read TypeScript imports a card.ts as JavaScript, which works if the card has no types.
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { register } from 'node:module';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Gpt2Error } from '../../base/errors.ts';
import { isCompiled } from '../../base/wording.ts';
import { importedFiles } from './includes.ts';

/** Whether this process can import TypeScript with types: it runs under tsx, or in Node 22.18 or later. */
const readsTypes = !isCompiled || Boolean((process.features as { typescript?: unknown }).typescript);
const index = new URL(`../../index.${isCompiled ? 'js' : 'ts'}`, import.meta.url).href;

/** Query parameter in the URLs of a card and its imports. Its value is made of the files' change times: a changed file is read again. */
const mark = 'gpt2.ts-card';

const hooks = `
import { readFile } from 'node:fs/promises';
const queryOf = (url) => /\\?${mark}=[\\d.,]+$/.exec(url ?? '')?.[0];
export const resolve = async (name, context, next) => {
  const query = queryOf(context.parentURL);
  if (query && name === 'gpt2.ts') return { url: ${JSON.stringify(index)}, format: 'module', shortCircuit: true };
  // tsx would find a file without its extension, but a built program, or tsx of another version, would not.
  if (query && /^\\.\\.?\\//.test(name) && !/\\.\\w+$/.test(name)) throw Object.assign(new Error(name + ' is no file'), { code: 'ERR_MODULE_NOT_FOUND' });
  const found = await next(name, context);
  // tsx would read a card in a folder without a package.json as CommonJS.
  const format = /\\.(ts|mjs)(\\?|$)/.test(found.url) ? 'module' : found.format;
  if (query && /^\\.\\.?\\//.test(name)) return { ...found, url: found.url + query, format };
  return queryOf(found.url) ? { ...found, format } : found;
};
export const load = async (url, context, next) => {
  if (${readsTypes} || !queryOf(url) || !new URL(url).pathname.endsWith('.ts')) return next(url, context);
  return { format: 'module', source: await readFile(new URL(url)), shortCircuit: true };
};`;
let isRegistered = false;

/**
 * Imports a card or another module of a user. If the module, or a file that it imports, has changed since the last call, imports it anew.
 * @param what a description of the module, with its name, for messages
 * @throws Gpt2Error if the module cannot be loaded, with the line of a syntax error
 */
export async function importCard(file: string, what: string): Promise<{ default?: unknown }> {
  if (!isRegistered) register(`data:text/javascript,${encodeURIComponent(hooks)}`);
  isRegistered = true;
  const changed = [file, ...importedFiles(file).keys()].map((path) => statSync(path).mtimeMs);
  try {
    return await import(`${pathToFileURL(resolve(file)).href}?${mark}=${changed}`);
  } catch (cause) {
    const { code = '', message } = cause as NodeJS.ErrnoException;
    const isPath = /^ERR_(MODULE_NOT_FOUND|UNSUPPORTED_DIR_IMPORT)$/.test(code);
    const correct = isPath ? 'name files with their extension, as ./launches.mjs, and install packages' : 'correct it';
    const line = cause instanceof SyntaxError ? lineOfSyntaxError(file) : undefined;
    const isType = cause instanceof SyntaxError && !readsTypes && file.endsWith('.ts');
    const fix = isType ? `${correct}; if it is a type, leave it out, or use Node 22.18 or later` : correct;
    throw new Gpt2Error(`${what} cannot be loaded: ${line ? `line ${line}: ` : ''}${message}; ${fix}`, { cause });
  }
}

/** The line of a syntax error, which the error of `import` lacks; undefined if the error is in a file that `file` imports. */
function lineOfSyntaxError(file: string): string | undefined {
  const options = { input: readFileSync(file), encoding: 'utf8' } as const;
  const { stderr } = spawnSync(process.execPath, ['--check', '--input-type=module', '-'], options);
  return /^\[stdin\]:(\d+)\n/.exec(stderr)?.[1];
}
