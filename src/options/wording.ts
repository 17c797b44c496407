// Words messages for programs: they name options as `train({ data, resume: true })` takes them, not as flags.
import { reworded } from '../errors.ts';
import { asTyped } from '../package-root.ts';
import { flagOf } from './row.ts';
import { optionNames, optionRows } from './table.ts';

const nameByFlag = new Map(
  optionNames.map((name) => {
    const { type } = optionRows[name];
    const isSwitch = type === 'switch' || (typeof type === 'object' && 'switch' in type);
    return [flagOf(optionRows[name]), isSwitch ? `${name}: true` : name];
  }),
);

/** A message with the names of options for their flags, except in commands, which stand in backquotes. */
export const forPrograms = (text: string): string =>
  asTyped(text)
    .split('`')
    .map((part, index) =>
      index % 2 === 1 ? part : part.replace(/--[a-z][\w-]*/g, (flag) => nameByFlag.get(flag) ?? flag),
    )
    .join('`');

/** Does work of the public API. @throws its errors, worded for programs */
export async function worded<R>(work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    throw reworded(error, forPrograms);
  }
}
