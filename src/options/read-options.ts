// Reads options strictly by their rows: from the command line, from JSON objects, from files.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import {
  checkGiven,
  checkValue,
  isNumeric,
  isWordOf,
  type Kind,
  numberOf,
  numberWithUnit,
} from '../base/checks/given.ts';
import { type Spellings, unknownOption } from '../base/checks/nearest.ts';
import { explained, gpt2Error, UsageError, usageError, words } from '../base/errors.ts';
import { type CheckedJson, readCheckedJson } from '../base/files/checked-json.ts';
import { checkSameParts, derivedFields, isOfProgram } from './configuration.ts';
import { flagOf, type OptionRow, type OptionValue } from './row.ts';
import { flagNamed, type OptionName, optionNamed, optionNames, optionRows, type TrainOptions } from './table.ts';

/** Reads an option's value from text or JSON. @throws UsageError naming the flag, the values it takes, and the value */
export function readValue(row: OptionRow, value: unknown): OptionValue {
  const { type } = row;
  const flag = flagOf(row);
  const word = typeof type === 'object' && 'switch' in type ? type.or : undefined;
  if ((type === 'switch' || word !== undefined) && typeof value !== 'boolean' && value !== word) {
    const advice = typeof value === 'string' ? row.otherwise?.(value) : undefined;
    throw UsageError.takes(flag, `${word === undefined ? '' : `${word} or `}no value`, value).with({ advice });
  }
  const read = isNumeric(type) && !isWordOf(type, value) ? (type.units ? numberWithUnit : numberOf)(value) : value;
  checkValue(flag, kindOf(row), read, value);
  return read as OptionValue;
}

/** The kind of value that an option takes. A text may be empty only if the flag without a value means the empty text. */
const kindOf = ({ type, alone }: OptionRow): Kind => (type === 'text' && alone === '' ? 'text or ""' : type);

type Kinds = Record<OptionName, Kind>;
const kinds = Object.fromEntries(optionNames.map((name) => [name, kindOf(optionRows[name])])) as Kinds;
const spellings: Spellings = new Map([
  ...optionNames.map((name) => [name, name] as const),
  ...optionNames.map((name) => [flagNamed(name), name] as const),
  ...optionNames.flatMap((name) => (optionRows[name].elsewhere ?? []).map((other) => [other, name] as const)),
]);
const help = '`gpt2 train --help` lists the options';

/** Checks the options of a program. @throws UsageError for an unknown name or a wrong value */
export const checkTrainOptions = (options: TrainOptions): void => checkGiven(options, {}, kinds, { spellings, help });

/** Reads an object of options, such as a config file. @throws UsageError for an unknown name or a wrong value */
export function readOptions(values: Record<string, unknown>, source: string): TrainOptions {
  const options: Record<string, OptionValue> = {};
  const spelled = new Map<OptionName, string>();
  for (const [name, value] of Object.entries(values)) {
    if (Object.hasOwn(derivedFields, name) || isOfProgram(name, value) || value === undefined) continue;
    const option = optionNamed(name);
    if (!option) throw new UsageError(unknownOption(name, spellings, help), { where: source });
    const first = spelled.get(option);
    if (first !== undefined) {
      throw usageError`${source} gives "${option}" twice, as "${first}" and as "${name}": remove one`;
    }
    spelled.set(option, name);
    try {
      options[option] = readValue(optionRows[option], value);
    } catch (error) {
      throw error instanceof UsageError ? error.with({ where: source }) : error;
    }
  }
  return options as TrainOptions;
}

/**
 * Reads the options from a file, or from a folder's config.json. The file may have been edited after a run wrote it.
 * @param parts names (`programParts`, such as schedule) of the objects that the calling program passes, as the file must record
 * @throws Gpt2Error if the file is no JSON object, or records other parts; UsageError as `readOptions`
 */
export function readOptionsFile(
  place: string,
  check: (file: CheckedJson) => void = () => {},
  parts: readonly string[] = [],
): TrainOptions {
  const path = statSync(place, { throwIfNoEntry: false })?.isDirectory() ? join(place, 'config.json') : place;
  const advice = words`--config takes a JSON object of options, such as a run's config.json`;
  const file = explained(`the options file ${path} cannot be read`, advice, () => readCheckedJson(path));
  check(file);
  const { value } = file;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw gpt2Error`the options file ${path} must hold one JSON object, such as a run's config.json`;
  }
  checkSameParts(path, value, parts);
  return readOptions(value as Record<string, unknown>, path);
}

/** Reads the config.json of a run to resume, as `readOptionsFile` does. @throws Gpt2Error if the file differs from what the run wrote */
export function readRunOptions(path: string, parts: readonly string[] = []): TrainOptions {
  const advice = words`restore it, or start another run with --config ${path}`;
  const check = (file: CheckedJson) => explained(`cannot resume from ${path}`, advice, () => file.check());
  return readOptionsFile(path, check, parts);
}
