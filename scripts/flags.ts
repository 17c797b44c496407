// Reads a script's flags: each has a default, whose type is the flag's. Words that are no flags are `positionals`.
import { parseArgs } from 'node:util';

type Value = string | number | boolean;
type Wide<T> = T extends number ? number : T extends boolean ? boolean : string;

/** @throws Error for an unknown flag, or a number that is none */
export function readFlags<T extends Readonly<Record<string, Value>>>(defaults: T) {
  const options = Object.fromEntries(
    Object.entries(defaults).map(([name, value]) => [
      name,
      { type: typeof value === 'boolean' ? ('boolean' as const) : ('string' as const) },
    ]),
  );
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  const read = ([name, otherwise]: [string, Value]) => {
    const given = values[name] ?? otherwise;
    const value = typeof otherwise === 'number' ? Number(given) : given;
    if (Number.isNaN(value)) throw new Error(`--${name} takes a number, not ${given}`);
    return [name, value];
  };
  const flags = Object.fromEntries(Object.entries(defaults).map(read)) as { [K in keyof T]: Wide<T[K]> };
  return { ...flags, positionals };
}
