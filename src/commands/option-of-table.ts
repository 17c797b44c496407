// Makes commander's options from the rows of the options table, for train and for commands that share options with it.
import { Option } from 'commander';
import type { TrainOptions } from '../index.ts';
import { flagOf, helpOf, type OptionName, type OptionRow, optionRows, readValue } from '../program.ts';

/** @param changes columns that differ in this command */
export function tableOption(name: OptionName, changes: Partial<OptionRow> = {}): Option {
  const row: OptionRow = { ...optionRows[name], ...changes };
  const { usage, alone, type } = row;
  const option = new Option(usage, helpOf(row));
  if (type === 'switch') return option;
  if (type === 'texts') return option.argParser((text, before: readonly string[] = []) => [...before, text]);
  return option.preset(alone).argParser((text) => readValue(row, text));
}

/** Reads options from commander's flags, whose keys are the flags in camel case: `--total-batch` is totalBatch, `--lr` is lr. */
export function optionsFromFlags(names: readonly OptionName[], flags: Readonly<Record<string, unknown>>): TrainOptions {
  const values = names.map((name) => [name, flags[new Option(optionRows[name].usage).attributeName()]] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Options as arguments of the command line. */
export const flagsOf = (options: TrainOptions): string[] =>
  Object.entries(options).flatMap(([name, value]) => {
    const flag = flagOf(optionRows[name as OptionName]);
    if (value === undefined || value === false) return [];
    if (Array.isArray(value)) return value.map((each) => `${flag}=${each}`);
    return value === true || value === '' ? [flag] : [`${flag}=${value}`];
  });
