// Merges the options of all sources, once: a value that is given itself counts before that of --config's file, then that of
// --preset, then that of --recipe.
import { UsageError, words } from '../base/errors.ts';
import { refuseBoth } from './complete-options.ts';
import { type PresetName, readPreset } from './presets.ts';
import { checkTrainOptions, readOptionsFile } from './read-options.ts';
import { type RecipeChoice, recipeChoices, recipeSource } from './recipe.ts';
import { withGiven } from './resumed-options.ts';
import { type OptionName, spell, type TrainOptions } from './table.ts';

/** Options of all sources, and where those come from that were not given themselves. */
export interface Sources {
  /** As they were given. */
  readonly given: TrainOptions;
  readonly options: TrainOptions;
  /** What each source adds, by its words: "--preset shakespeare-laptop". */
  readonly added: ReadonlyMap<string, TrainOptions>;
  /** The preset, with the options that come from it. */
  readonly preset: { readonly name: PresetName; readonly options: TrainOptions } | undefined;
  /** The recipe, with what it chooses and why. */
  readonly recipe:
    | { readonly name: string; readonly source: string; readonly choices: readonly RecipeChoice[] }
    | undefined;
}

/** @throws UsageError for a wrong option; as `readOptionsFile`, and as `recipeChoices` */
export function resolveSources(given: TrainOptions): Sources {
  checkTrainOptions(given);
  const { config, ...typed } = given;
  const added = new Map<string, TrainOptions>();
  const { preset: presetName, ...own } = withGiven(config === undefined ? {} : readOptionsFile(config), typed);
  if (config !== undefined) added.set(words`--config ${config}`, notIn(typed, own));
  const preset = presetName && {
    name: presetName,
    options: notIn(own, withGiven(readPreset(presetName).options, own)),
  };
  if (preset) added.set(words`--preset ${preset.name}`, preset.options);
  const all: TrainOptions = { ...preset?.options, ...own };
  const { recipe: name, ...options } = all;
  refuseBoth(options);
  // A run that is resumed has recorded what its recipe chose.
  if (name === undefined || options.resume === true) return { given, options: all, added, preset, recipe: undefined };
  const choices = recipeChoices(options);
  const chosen: TrainOptions = Object.fromEntries(choices.map(({ name, value }) => [name, value]));
  added.set(words`--recipe ${name}`, chosen);
  return { given, options: { ...chosen, ...options }, added, preset, recipe: { name, source: recipeSource, choices } };
}

const notIn = (before: TrainOptions, merged: TrainOptions): TrainOptions =>
  Object.fromEntries(Object.entries(merged).filter(([option]) => before[option as OptionName] === undefined));

/** The error; a UsageError about options whose values a source added names the source and the values. */
export function nameSources(error: unknown, { added }: Sources): unknown {
  if (!(error instanceof UsageError)) return error;
  const named = [...added].flatMap(([source, options]) => {
    const found = Object.entries(options).filter(([name]) => error.fields.options?.includes(name));
    const typed = found.map(([name, value]) => `${spell(name as OptionName)}${value === true ? '' : ` ${value}`}`);
    return typed.length === 0 ? [] : `from ${source}: ${typed.join(', ')}`;
  });
  return named.length === 0 ? error : error.with({ sources: named.join('; ') });
}
