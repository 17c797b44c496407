// The options of training, one row each. The command line, --help, completion, config files, a run's configuration and its
// schema, docs/formats.md, and the rules of --resume, compare and ranks derive from the columns (row.ts). To add an option, add a
// row to one of the three sections, run `npm run generate`, and write the code that uses it.
import { nameFlags, spelled } from '../base/wording.ts';
import { flagOf, type HasDefault, type OptionRow } from './row.ts';
import { runningRows } from './running-rows.ts';
import { startRows } from './start-rows.ts';
import type { TrainOptions } from './train-options.generated.ts';
import { trainingRows } from './training-rows.ts';

/** Options that config.json records. `startRows`, the options of one start of the program, are not recorded. */
const recordedRows = { ...trainingRows, ...runningRows };

/** All options; the key is the option's name in config.json. */
export const optionTable = { ...recordedRows, ...startRows };

/** The sections of the table, by their headings in --help. */
export const optionParts: Readonly<Record<string, Readonly<Record<string, OptionRow>>>> = {
  'What is trained:': trainingRows,
  'How it is trained:': runningRows,
  'This start:': startRows,
};

type Table = typeof optionTable;
export type OptionName = keyof Table;

/** The table without the literal types of its values. */
export const optionRows: Readonly<Record<OptionName, OptionRow>> = optionTable;
export const optionNames = Object.keys(optionTable) as readonly OptionName[];
export const recordedNames = Object.keys(recordedRows) as readonly RecordedName[];

/** The row of a name from a file; undefined: there is no such option. */
export const rowNamed = (name: string): OptionRow | undefined =>
  Object.hasOwn(optionTable, name) ? optionRows[name as OptionName] : undefined;

/** An option's flag, such as "--seq". */
export const flagNamed = (name: OptionName): string => flagOf(optionRows[name]);

/** A name in lower case without - and _, so that learningRate, learning_rate and --learning-rate are equal. */
export const plain = (name: string): string => name.replaceAll(/[-_]/g, '').toLowerCase();

/** The option that has this name in config.json or in --help, whatever separates its words: learning_rate, learningRate, --lr. */
export const optionNamed = (name: string): OptionName | undefined =>
  optionNames.find((key) => [key, flagNamed(key)].some((known) => plain(known) === plain(name)));

const isSwitch = ({ type }: OptionRow): boolean => type === 'switch' || (typeof type === 'object' && 'switch' in type);

// Among the flags of other commands, only prepro's --val-fraction has another name than its option, `validation`.
nameFlags({
  names: new Map([['--val-fraction', 'validation'], ...optionNames.map((name) => [flagNamed(name), name] as const)]),
  switches: new Set(Object.values(optionRows).filter(isSwitch).map(flagOf)),
});

/** An option's name for messages: on the command line its flag, such as "--seq"; in a program "sequence". */
export const spell = (name: OptionName): string => spelled(flagNamed(name));

export type { TrainOptions };

type Defaulted = { [K in OptionName]: HasDefault<Table[K]> extends true ? K : never }[OptionName];

/** Options in which every default that does not depend on data is filled in. */
export type DefaultedOptions = Readonly<
  { [K in Defaulted]: NonNullable<TrainOptions[K]> } & Omit<TrainOptions, Defaulted>
>;

/** Options of a run once `batch` is a number, from which the size of a step follows. */
export type ResolvedOptions = Readonly<
  Omit<DefaultedOptions, 'batch' | 'totalBatch'> & {
    batch: number;
    totalBatch: number;
    accumulation: number;
  }
>;

export type RecordedName = keyof typeof recordedRows;
type OptionalName = { [K in RecordedName]: Table[K] extends { readonly optional: true } ? K : never }[RecordedName];

/** The options of a model or run with all defaults, as config.json and logs record them. */
export type Configuration = { [K in Exclude<RecordedName, OptionalName | 'batch'>]: NonNullable<TrainOptions[K]> } & {
  [K in OptionalName]?: TrainOptions[K];
} & { batch: number; vocabularySize: number; cards?: string; [field: string]: unknown };
