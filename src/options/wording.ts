// Words messages for programs: they name options as `train({ data, resume: true })` takes them, not as flags.
import { reworded } from '../errors.ts';
import { asTyped } from '../package-root.ts';
import { flagOf } from './row.ts';
import { optionNames, optionRows } from './table.ts';

const nameByFlag = new Map([
  // The one flag of other commands that has another name than its option.
  ['--val-fraction', 'validation'],
  ...optionNames.map((name) => {
    const { type } = optionRows[name];
    const isSwitch = type === 'switch' || (typeof type === 'object' && 'switch' in type);
    return [flagOf(optionRows[name]), isSwitch ? `${name}: true` : name] as [string, string];
  }),
]);

const inCamelCase = (flag: string): string =>
  flag.slice(2).replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

const nameOf = (flag: string): string => nameByFlag.get(flag) ?? inCamelCase(flag);

/** "with out" and "another out" would read as other words. */
const withNames = (text: string): string =>
  text
    .replace(resumes, (_, out: string) => `with { out: ${JSON.stringify(unquoted(out))}, resume: true }`)
    .replace(/another --out(?![\w-])/g, 'another path as out')
    .replace(/ with (--[a-z][\w-]*)(?=$|[;,])/g, (_, flag: string) => {
      const name = nameOf(flag);
      return ` with ${name.includes(':') ? '' : 'the option '}${name}`;
    })
    // Not in a path, such as runs/--data.
    .replace(/(?<![\w/.-])--[a-z][\w-]*(?![\w/-]|\.\w)/g, nameOf);

/** What `continueWith` writes. */
const resumes = /with --out ('(?:[^']|'\\'')*'|\S+) --resume/g;
const unquoted = (word: string): string => word.replaceAll(/^'|'$/g, '').replaceAll("'\\''", "'");

/** A message with the names of options for their flags, except in commands, which stand in backquotes. */
export const forPrograms = (text: string): string =>
  asTyped(text)
    .split('`')
    .map((part, index) => (index % 2 === 1 ? part : withNames(part)))
    .join('`');

/** A message of a function with an argument, not an option, for what a flag names: by its value alone. */
export const withoutFlag = (text: string, flag: string): string =>
  text.replaceAll(new RegExp(` with ${flag}(?![\\w-])|${flag} `, 'g'), '');

/** Does work of the public API, at once or as a promise. @throws its errors, worded for programs */
export function worded<R>(work: () => R, wording = forPrograms): R {
  const fail = (error: unknown): never => {
    throw reworded(error, wording);
  };
  try {
    const result = work();
    return result instanceof Promise ? (result.catch(fail) as R) : result;
  } catch (error) {
    return fail(error);
  }
}

/** Options whose notices are worded for programs. */
export function wordedNotice<O extends { readonly notice?: (text: string) => void }>(options: O): O {
  const { notice } = options ?? {};
  return typeof notice === 'function' ? { ...options, notice: (text: string) => notice(forPrograms(text)) } : options;
}
