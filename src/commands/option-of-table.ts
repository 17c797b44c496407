// Makes commander's options: from the rows of the options table, for train and for commands that share options with it; and numbers.
import { Option } from 'commander';
import type { TrainOptions } from '../index.ts';
import {
  flagOf,
  helpOf,
  modelPaths,
  type NumberType,
  type OptionName,
  type OptionRow,
  optionRows,
  plain,
  readValue,
  real,
  recordedNames,
  whole,
} from '../program.ts';

/** The values of flags that may be absent, by their names in an action. */
export type Texts<Name extends string> = { readonly [N in Name]?: string };
export type Lists<Name extends string> = { readonly [N in Name]?: readonly string[] };
export type Numbers<Name extends string> = { readonly [N in Name]?: number };
export type Switches<Name extends string> = { readonly [N in Name]?: boolean };

const otherNames = new WeakMap<Option, readonly string[]>();

/** Gives an option further names, such as those in other programs: an error that quotes one then names the option. */
export function knownAs(option: Option, names: readonly string[]): Option {
  otherNames.set(option, names);
  return option;
}

/** The option that a flag means: by its flag, its name in config.json with any separators, or its name in another program. */
export const optionMeant = (flag: string, options: readonly Option[]): Option | undefined =>
  options.find((option) =>
    [option.long!, ...(otherNames.get(option) ?? [])].some((name) => plain(name) === plain(flag)),
  );

/** --model of commands that read a trained model. @param elsewhere further names in other programs */
export const modelOption = (elsewhere: readonly string[] = []): Option =>
  tableOption('model', {
    help: modelPaths,
    default: { text: 'the newest run in runs/' },
    elsewhere: [...optionRows.model.elsewhere!, ...elsewhere],
  });

export const repeated = (text: string, before: readonly string[] = []): string[] => [...before, text];

/** @param changes columns that differ in this command */
export const tableOption = (
  name: OptionName,
  { elsewhere = optionRows[name].elsewhere ?? [], ...changes }: Partial<OptionRow> = {},
): Option => optionOf({ ...optionRows[name], ...changes, elsewhere: [name, ...elsewhere] });

export const count = whole(1, 65536);
export const share = real(0, 1);

export const numberOption = (usage: string, help: string, type: NumberType, otherwise?: number): Option =>
  optionOf({ usage, help, type }).default(otherwise);

/** --time-limit of commands that run kernels of a user. */
export const timeLimitOption = (): Option =>
  numberOption('--time-limit <S>', 'seconds that a kernel may run', real(0.1, 86_400), 30);

/** A row's option; and --no-X of a switch that config.json records, because a recipe, a preset or --config may set it. */
export const tableOptions = (name: OptionName, changes: Partial<OptionRow> = {}): Option[] => [
  tableOption(name, changes),
  ...(canBeOff(name)
    ? [new Option(offFlag(name), `no ${flagOf(optionRows[name])}, even if a recipe or --config sets it`)]
    : []),
];

const canBeOff = (name: OptionName): boolean =>
  optionRows[name].type === 'switch' && recordedNames.some((recorded) => recorded === name);

/** "--no-document-mask" */
const offFlag = (name: OptionName): string => flagOf(optionRows[name]).replace('--', '--no-');

function optionOf(row: OptionRow): Option {
  const { usage, alone, type, elsewhere = [] } = row;
  const option = knownAs(new Option(usage, helpOf(row)), elsewhere);
  if (type === 'switch') return option;
  if (type === 'texts') return option.argParser(repeated);
  return option.preset(alone).argParser((text) => readValue(row, text));
}

/** An option's key in commander's flags, the flag in camel case: `--total-batch` is totalBatch, `--lr` is lr. */
export const attributeOf = (name: OptionName): string => new Option(optionRows[name].usage).attributeName();

export function optionsFromFlags(names: readonly OptionName[], flags: Readonly<Record<string, unknown>>): TrainOptions {
  const values = names.map((name) => [name, flags[attributeOf(name)]] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Arguments of node that start a training of this program. */
export const trainArguments = (options: TrainOptions): string[] => [
  ...[...process.execArgv, process.argv[1]!, 'train', ...flagsOf(options)],
];

export const flagsOf = (options: TrainOptions): string[] =>
  Object.entries(options).flatMap(([name, value]) => {
    const flag = flagOf(optionRows[name as OptionName]);
    if (value === false && canBeOff(name as OptionName)) return [offFlag(name as OptionName)];
    if (value === undefined || value === false) return [];
    if (Array.isArray(value)) return value.map((each) => `${flag}=${each}`);
    return value === true || value === '' ? [flag] : [`${flag}=${value}`];
  });
