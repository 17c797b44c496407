// Makes the tables of options in docs/formats.md from the options table.
import { derivedFields, recordedNames } from '../src/options/configuration.ts';
import { flagOf, helpOf, type OptionRow } from '../src/options/row.ts';
import { optionNames, optionRows } from '../src/options/table.ts';

function typeOf({ type, optional }: OptionRow): string {
  const words = Array.isArray(type) ? type.map((word) => `\`${word}\``).join(', ') : '';
  const name =
    { text: 'string', switch: 'boolean' }[type as string] ??
    (words || ('integer' in (type as object) ? 'integer' : 'number'));
  return optional ? `${name}, optional` : name;
}

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map(() => '---'), ...rows]
    .map((cells) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`)
    .join('\n');

/** The table of a configuration's fields. */
export function recordedOptions(): string {
  const rows = recordedNames.map((name) => {
    const row = optionRows[name];
    return [`\`${name}\``, typeOf(row), `\`${flagOf(row)}\``, row.resume ?? 'yes', helpOf(row)];
  });
  const derived = Object.entries(derivedFields).map(([name, meaning]) => [
    `\`${name}\``,
    'integer',
    '',
    'never',
    meaning,
  ]);
  return tableOf(['field', 'type', 'flag', '`--resume` may change it', 'meaning'], [...rows, ...derived]);
}

/** The table of the options of one start. */
export function startOptions(): string {
  const rows = optionNames
    .filter((name) => optionRows[name].scope === 'start')
    .map((name) => [
      `\`${name}\``,
      typeOf(optionRows[name]),
      `\`${flagOf(optionRows[name])}\``,
      helpOf(optionRows[name]),
    ]);
  return tableOf(['option', 'type', 'flag', 'meaning'], rows);
}
