// Reads options strictly by their rows: from the command line, from JSON objects, from files.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { checkGiven, checkValue, isNumeric, isWordOf, type Kind } from '../base/checks/given.ts';
import { type Spellings, unknownOption } from '../base/checks/nearest.ts';
import { numberOf, numberWithUnit } from '../base/checks/number.ts';
import { attempt, Gpt2Error, UsageError, words } from '../base/errors.ts';
import { type CheckedJson, readCheckedJson } from '../base/files/checked-json.ts';
import { refuseBoth } from './complete-options.ts';
import { derivedFields } from './configuration.ts';
import { type PresetName, readPreset } from './presets.ts';
import { type RecipeChoice, recipeChoices, recipeSource } from './recipe.ts';
import { withGiven } from './resumed-options.ts';
import { flagOf, type OptionRow, type OptionValue } from './row.ts';
import { type OptionName, optionNamed, optionNames, optionRows, spell, type TrainOptions } from './table.ts';

/**
 * Reads the text or JSON value of an option.
 * @throws UsageError naming the flag, what it takes, and the value
 */
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

/** The value that stands for a flag alone may be the empty text. */
const kindOf = ({ type, alone }: OptionRow): Kind => (type === 'text' && alone === '' ? 'text or ""' : type);

const kinds = Object.fromEntries(optionNames.map((name) => [name, kindOf(optionRows[name])])) as Record<
  OptionName,
  Kind
>;
const spellings: Spellings = new Map([
  ...optionNames.map((name) => [name, name] as const),
  ...optionNames.map((name) => [flagOf(optionRows[name]), name] as const),
  ...optionNames.flatMap((name) => (optionRows[name].elsewhere ?? []).map((other) => [other, name] as const)),
]);
const help = '`gpt2 train --help` lists the options';

/** Checks the options that a program gives. @throws UsageError for an unknown name or a wrong value */
export const checkTrainOptions = (given: TrainOptions): void => checkGiven(given, {}, kinds, { spellings, help });

/** @throws UsageError as `readValue` */
export const readOption = (name: OptionName, value: unknown): OptionValue => readValue(optionRows[name], value);

/** Reads an object of options, such as a config file. @throws UsageError for an unknown name or a wrong value */
export function readOptions(values: Record<string, unknown>, source: string): TrainOptions {
  const options: Record<string, OptionValue> = {};
  const spelled = new Map<OptionName, string>();
  for (const [name, value] of Object.entries(values)) {
    if (Object.hasOwn(derivedFields, name) || value === undefined || value === null) continue;
    const option = optionNamed(name);
    if (!option) throw new UsageError(unknownOption(name, spellings, help), { where: source });
    const first = spelled.get(option);
    if (first !== undefined) {
      throw new UsageError(`${source} gives "${option}" twice, as "${first}" and as "${name}": remove one`);
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
 * Reads a file of options, or a folder's config.json, as a run wrote it or edited.
 * @throws Gpt2Error if it is not such a file; UsageError as `readOptions`
 */
export function readOptionsFile(given: string, check: (file: CheckedJson) => void = () => {}): TrainOptions {
  const path = statSync(given, { throwIfNoEntry: false })?.isDirectory() ? join(given, 'config.json') : given;
  let file: CheckedJson;
  try {
    file = readCheckedJson(path);
  } catch (cause) {
    throw new Gpt2Error(
      words`the options file ${path} cannot be read: ${(cause as Error).message}; --config takes a JSON object of options, such as a run's config.json`,
      { cause },
    );
  }
  check(file);
  const { value } = file;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Gpt2Error(`the options file ${path} must hold one JSON object, such as a run's config.json`);
  }
  return readOptions(value as Record<string, unknown>, path);
}

/** As `readOptionsFile`, for a run that resumes with it. @throws Gpt2Error if it is not what the run wrote */
export const readRunOptions = (path: string): TrainOptions =>
  readOptionsFile(path, (file) => {
    try {
      file.check();
    } catch (cause) {
      throw new Gpt2Error(
        words`cannot resume from ${path}: ${(cause as Error).message}; restore it, or start another run with --config ${path}`,
        { cause },
      );
    }
  });

/**
 * Adds the options of --config's file that are not given themselves, then those of --preset, then those of --recipe.
 * @throws as `readOptionsFile`, and as `recipeChoices`
 */
export function withSources(given: TrainOptions): TrainOptions {
  const { options, recipe } = withRecipe(given);
  return { ...valuesOf(recipe?.choices), ...options };
}

const valuesOf = (choices: readonly RecipeChoice[] = []): TrainOptions =>
  Object.fromEntries(choices.map(({ name, value }) => [name, value]));

/**
 * The options with those of --config's file and --preset, and what the recipe that they name chooses in addition.
 * @throws as `withSources`
 */
export function withRecipe(given: TrainOptions): {
  options: TrainOptions;
  recipe: { name: string; source: string; choices: RecipeChoice[] } | undefined;
} {
  const { preset: _, ...ofFile } = withFile(given);
  const all: TrainOptions = { ...presetOptions(given)?.options, ...ofFile };
  const { recipe: name, ...options } = all;
  refuseBoth(options);
  // A run that is resumed has recorded what its recipe chose.
  if (name === undefined || options.resume === true) return { options: all, recipe: undefined };
  return { options, recipe: { name, source: recipeSource, choices: recipeChoices(options) } };
}

/** Does work with options; a UsageError of it says which values of the options that it is about --config, --preset or --recipe gave. */
export async function namingSources<R>(given: TrainOptions, work: () => Promise<R>): Promise<R> {
  try {
    return await work();
  } catch (error) {
    const sources = attempt(() => sourcesOf(given));
    // Without a valid source, that is the error.
    if (!(error instanceof UsageError) || sources instanceof Gpt2Error) throw error;
    const named = sources.flatMap(([source, options]) => {
      const found = Object.entries(options).filter(([name]) => error.fields.options?.includes(name));
      const typed = found.map(([name, value]) => `${spell(name as OptionName)}${value === true ? '' : ` ${value}`}`);
      return typed.length === 0 ? [] : `from ${source}: ${typed.join(', ')}`;
    });
    throw named.length === 0 ? error : error.with({ sources: named.join('; ') });
  }
}

/** What --config's file, --preset and --recipe add to the options that are given themselves. */
function sourcesOf(given: TrainOptions): [source: string, added: TrainOptions][] {
  checkTrainOptions(given);
  const { config } = given;
  const preset = presetOptions(given);
  const { recipe } = withRecipe(given);
  return [
    ...(config === undefined
      ? []
      : [[words`--config ${config}`, addedTo(given, withFile(given))] as [string, TrainOptions]]),
    ...(preset ? [[words`--preset ${preset.name}`, preset.options] as [string, TrainOptions]] : []),
    ...(recipe ? [[words`--recipe ${recipe.name}`, valuesOf(recipe.choices)] as [string, TrainOptions]] : []),
  ];
}

/** The options that `given` has not. */
const addedTo = (given: TrainOptions, merged: TrainOptions): TrainOptions =>
  Object.fromEntries(Object.entries(merged).filter(([option]) => given[option as OptionName] === undefined));

/** The preset that is named by the options or by the file of --config, and what it adds to both. @throws as `readOptionsFile` */
export function presetOptions(given: TrainOptions): { name: PresetName; options: TrainOptions } | undefined {
  const options = withFile(given);
  const { preset: name } = options;
  if (name === undefined) return undefined;
  return { name, options: addedTo(options, withGiven(readPreset(name).options, options)) };
}

const withFile = ({ config, ...given }: TrainOptions): TrainOptions =>
  withGiven(config === undefined ? {} : readOptionsFile(config), given);
