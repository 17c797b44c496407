// Makes options for commander: number options, and the options of `train` and related commands, from rows of the options table.
import { Option } from 'commander';
import type { TrainOptions } from '../index.ts';
import {
  flagNamed,
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

/** Types of a command's parsed flags: texts, lists of texts, numbers, switches. Keys are flags in camel case; any may be absent. */
export type Texts<Name extends string> = { readonly [N in Name]?: string };
export type Lists<Name extends string> = { readonly [N in Name]?: readonly string[] };
export type Numbers<Name extends string> = { readonly [N in Name]?: number };
export type Switches<Name extends string> = { readonly [N in Name]?: boolean };

const otherNames = new WeakMap<Option, readonly string[]>();

/** Registers further names for an option, such as nanoGPT's: an error about an unknown flag with such a name suggests the option. */
export function knownAs(option: Option, names: readonly string[]): Option {
  otherNames.set(option, names);
  return option;
}

/** The option that a typed flag probably means, by its flag, its name in config.json or in other programs; ignores case, - and _. */
export const optionMeant = (flag: string, options: readonly Option[]): Option | undefined =>
  options.find((option) =>
    [option.long!, ...(otherNames.get(option) ?? [])].some((name) => plain(name) === plain(flag)),
  );

/** The option --model of commands that read a trained model. @param elsewhere more names that other programs use for the option */
export const modelOption = (elsewhere: readonly string[] = []): Option =>
  tableOption('model', {
    help: modelPaths,
    default: { text: 'the newest run in runs/' },
    elsewhere: [...optionRows.model.elsewhere!, ...elsewhere],
  });

export const repeated = (text: string, before: readonly string[] = []): string[] => [...before, text];

/** The commander option of one row of the options table. @param changes columns of the row that differ in this command */
export const tableOption = (
  name: OptionName,
  { elsewhere = optionRows[name].elsewhere ?? [], ...changes }: Partial<OptionRow> = {},
): Option => optionOf({ ...optionRows[name], ...changes, elsewhere: [name, ...elsewhere] });

export const count = whole(1, 65536);
export const share = real(0, 1);

export const numberOption = (usage: string, help: string, type: NumberType, otherwise?: number): Option =>
  optionOf({ usage, help, type }).default(otherwise);

/** The option --time-limit of commands that run a user's kernels. */
export const timeLimitOption = (): Option =>
  numberOption('--time-limit <S>', 'seconds that a kernel may run', real(0.1, 86_400), 30);

/** Makes a row's option and, for a switch that a recipe, a preset or --config can set, the option --no-X that turns it off. */
export const tableOptions = (name: OptionName, changes: Partial<OptionRow> = {}): Option[] => [
  tableOption(name, changes),
  ...(canBeOff(name) ? [new Option(offFlag(name), `no ${flagNamed(name)}, even if a recipe or --config sets it`)] : []),
];

const canBeOff = (name: OptionName): boolean =>
  optionRows[name].type === 'switch' && recordedNames.some((recorded) => recorded === name);

/** The flag that turns a switch off: "--no-document-mask". */
const offFlag = (name: OptionName): string => flagNamed(name).replace('--', '--no-');

function optionOf(row: OptionRow): Option {
  const { usage, alone, type, elsewhere = [] } = row;
  const option = knownAs(new Option(usage, helpOf(row)), elsewhere);
  if (type === 'switch') return option;
  if (type === 'texts') return option.argParser(repeated);
  return option.preset(alone).argParser((text) => readValue(row, text));
}

/** The key under which commander stores an option's value: totalBatch for --total-batch, lr for --lr. */
export const attributeOf = (name: OptionName): string => new Option(optionRows[name].usage).attributeName();

export function optionsFromFlags(names: readonly OptionName[], flags: Readonly<Record<string, unknown>>): TrainOptions {
  const values = names.map((name) => [name, flags[attributeOf(name)]] as const);
  return Object.fromEntries(values.filter(([, value]) => value !== undefined));
}

/** Arguments for node that start `gpt2 train` with these options, from the same program file as this process. */
export const trainArguments = (options: TrainOptions): string[] => [
  ...[...process.execArgv, process.argv[1]!, 'train', ...flagsOf(options)],
];

export const flagsOf = (options: TrainOptions): string[] =>
  Object.entries(options).flatMap(([name, value]) => {
    const flag = flagNamed(name as OptionName);
    if (value === false && canBeOff(name as OptionName)) return [offFlag(name as OptionName)];
    if (value === undefined || value === false) return [];
    if (Array.isArray(value)) return value.map((each) => `${flag}=${each}`);
    return value === true || value === '' ? [flag] : [`${flag}=${value}`];
  });
