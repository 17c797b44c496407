// The options of training, one row each. The command line, --help, completion, config files, a run's configuration and its
// schema, docs/formats.md, and the rules of --resume, compare and ranks derive from the columns (row.ts). To add an option,
// add its row to one of the three parts, `npm run generate`, and the code that uses it.
import { nameFlags, spelled } from '../base/wording.ts';
import { flagOf, type HasDefault, type OptionRow, type ResolvedValueOf } from './row.ts';
import { runningRows } from './running-rows.ts';
import { startRows } from './start-rows.ts';
import type { TrainOptions } from './train-options.generated.ts';
import { trainingRows } from './training-rows.ts';

/** Options that config.json records; those of one start of the program are recorded nowhere. */
const recordedRows = { ...trainingRows, ...runningRows };

/** Keyed by the option's name in config.json. */
export const optionTable = { ...recordedRows, ...startRows };

/** The parts of the table, by their headings in --help. */
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

/** A name without what divides its words: learning_rate and learning-rate are one. */
export const plain = (name: string): string => name.replaceAll(/[-_]/g, '').toLowerCase();

/** The option of a name as config.json or --help has it, however its words are divided: learningRate, learning_rate, lr, --lr. */
export const optionNamed = (name: string): OptionName | undefined =>
  optionNames.find((key) => [key, flagOf(optionRows[key])].some((known) => plain(known) === plain(name)));

const isSwitch = ({ type }: OptionRow): boolean => type === 'switch' || (typeof type === 'object' && 'switch' in type);

// The validation of prepro is the one flag of another command that is not its option's name.
nameFlags({
  names: new Map([
    ['--val-fraction', 'validation'],
    ...optionNames.map((name) => [flagOf(optionRows[name]), name] as const),
  ]),
  switches: new Set(Object.values(optionRows).filter(isSwitch).map(flagOf)),
});

/** "--seq" of sequence; for programs "sequence". */
export const spell = (name: OptionName): string => spelled(flagOf(optionRows[name]));

export type { TrainOptions };

type Defaulted = { [K in OptionName]: HasDefault<Table[K]> extends true ? K : never }[OptionName];

/** Options with every default that does not depend on data. */
export type DefaultedOptions = Readonly<
  { [K in Defaulted]: NonNullable<TrainOptions[K]> } & Omit<TrainOptions, Defaulted>
>;

/** Options of a run: `batch` is chosen, and with it what a step is. */
export type ResolvedOptions = Readonly<
  Omit<DefaultedOptions, 'batch' | 'totalBatch'> & {
    /** Sequences in a micro-batch. */
    batch: number;
    /** Tokens in a step. */
    totalBatch: number;
    /** Micro-batches in a step. */
    accumulation: number;
  }
>;

export type RecordedName = keyof typeof recordedRows;
type OptionalName = { [K in RecordedName]: Table[K] extends { readonly optional: true } ? K : never }[RecordedName];

/** The options of a model or run with all defaults, as config.json and logs record them. */
export type Configuration = { [K in Exclude<RecordedName, OptionalName>]: ResolvedValueOf<Table[K]> } & {
  [K in OptionalName]?: ResolvedValueOf<Table[K]>;
} & { vocabularySize: number; cards?: string; [field: string]: unknown };
