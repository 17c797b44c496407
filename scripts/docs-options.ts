// Makes the tables of options in docs/formats.md and docs/api.md from the options table.
import * as z from 'zod';
import { inNames } from '../src/base/wording.ts';
import { derivedFields } from '../src/options/configuration.ts';
import { flagOf, helpOf, type OptionRow } from '../src/options/row.ts';
import { startRows } from '../src/options/start-rows.ts';
import { optionNames, optionRows, recordedNames } from '../src/options/table.ts';
import { valueTypeOf } from './generate/options.ts';

const code = (text: string): string => `\`${text}\``;

function typeOf({ type, optional }: OptionRow): string {
  const words = Array.isArray(type) ? type.map((word) => `\`${word}\``).join(', ') : '';
  const name =
    { text: 'string', texts: 'array of strings', switch: 'boolean' }[type as string] ??
    (words || typeOfObject(type as object));
  return optional ? `${name}, optional` : name;
}

function typeOfObject(type: { readonly or?: string; readonly orAll?: true; readonly orTime?: true }): string {
  if ('switch' in type) return `boolean or \`${type.or}\``;
  const word = type.orAll ? ' or `all`' : type.orTime ? ' or string' : '';
  return 'integer' in type ? `integer${word}` : 'number';
}

/** Rows of cells as a Markdown table, the first columns aligned left, the others right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[], left = 1): string {
  const rule = head.map((_, index) => (index < left ? '---' : '---:'));
  return [head, rule, ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

export function recordedOptions(): string {
  const rows = recordedNames.map((name) => {
    const row = optionRows[name];
    return [code(name), typeOf(row), code(flagOf(row)), row.resume ?? 'yes', helpOf(row)];
  });
  for (const [name, { schema, meaning }] of Object.entries(derivedFields)) {
    const type = `${z.toJSONSchema(schema).type}${schema.isOptional() ? ', optional' : ''}`;
    rows.push([code(name), type, '', 'never', meaning]);
  }
  return table(['field', 'type', 'flag', '`--resume` may change it', 'meaning'], rows, 5);
}

/** The table of the options of `train` for programs, with names and types. */
export function trainOptions(): string {
  const rows = optionNames.map((name) => {
    const row = optionRows[name];
    return [code(name), code(valueTypeOf(row).replaceAll('|', '\\|')), inNames(helpOf(row))];
  });
  return table(['option', 'type', 'meaning'], rows, 3);
}

export function startOptions(): string {
  const cells = ([name, row]: [string, OptionRow]) => [code(name), typeOf(row), code(flagOf(row)), helpOf(row)];
  const rows = Object.entries(startRows).map(cells);
  return table(['option', 'type', 'flag', 'meaning'], rows, 4);
}
