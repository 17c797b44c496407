// Reads a script's flags: a flag has the type of its default. Words without a flag are `positionals`.
import { parseArgs } from 'node:util';

type Value = string | number | boolean;
type Wide<T> = T extends number ? number : T extends boolean ? boolean : string;

/** @throws Error for an unknown flag, or a value that is no number where one is needed */
export function readFlags<T extends Readonly<Record<string, Value>>>(defaults: T) {
  const optionOf = (value: Value) => ({ type: typeof value === 'boolean' ? 'boolean' : 'string' }) as const;
  const options = Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, optionOf(value)]));
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const read = ([name, otherwise]: [string, Value]) => {
    const text = values[name] ?? otherwise;
    const value = typeof otherwise === 'number' ? Number(text) : text;
    if (Number.isNaN(value)) throw new Error(`--${name} takes a number, not ${text}`);
    return [name, value];
  };
  const flags = Object.fromEntries(Object.entries(defaults).map(read)) as { [K in keyof T]: Wide<T[K]> };
  return { ...flags, positionals };
}
