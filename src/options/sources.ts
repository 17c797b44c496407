// Merges the options of all sources, once. An option that was set directly takes precedence over --config's file, the file over
// --preset, and --preset over --recipe.
import { UsageError, words } from '../base/errors.ts';
import { refuseBoth } from './complete-options.ts';
import { type PresetName, readPreset } from './presets.ts';
import { checkTrainOptions, readOptionsFile } from './read-options.ts';
import { type RecipeChoice, recipeChoices, recipeSource } from './recipe.ts';
import { withGiven } from './resumed-options.ts';
import { type OptionName, spell, type TrainOptions } from './table.ts';

/** The merged options of all sources, and for options that were not set directly the source: --config, --preset or --recipe. */
export interface Sources {
  readonly asked: TrainOptions;
  readonly options: TrainOptions;
  /** The options that each source adds, by the source's text: "--preset shakespeare-laptop". */
  readonly added: ReadonlyMap<string, TrainOptions>;
  /** The preset, and the options that come from the preset. */
  readonly preset: { readonly name: PresetName; readonly options: TrainOptions } | undefined;
  /** The recipe, and the options that it sets, each with the value's origin. */
  readonly recipe:
    | { readonly name: string; readonly source: string; readonly choices: readonly RecipeChoice[] }
    | undefined;
}

/** @throws UsageError for a wrong option; as `readOptionsFile`, and as `recipeChoices` */
export function resolveSources(asked: TrainOptions): Sources {
  checkTrainOptions(asked);
  const { config, ...typed } = asked;
  const added = new Map<string, TrainOptions>();
  const { preset: presetName, ...merged } = withGiven(config === undefined ? {} : readOptionsFile(config), typed);
  if (config !== undefined) added.set(words`--config ${config}`, notIn(typed, merged));
  const ofPreset = presetName && withGiven(readPreset(presetName).options, merged);
  const preset = ofPreset && { name: presetName, options: notIn(merged, ofPreset) };
  if (preset) added.set(words`--preset ${preset.name}`, preset.options);
  const all: TrainOptions = { ...preset?.options, ...merged };
  const { recipe: name, ...options } = all;
  refuseBoth(options);
  // A resumed run needs no recipe, because the run's configuration has recorded the recipe's choices.
  if (name === undefined || options.resume === true) return { asked, options: all, added, preset, recipe: undefined };
  const choices = recipeChoices(name, options);
  const chosen: TrainOptions = Object.fromEntries(choices.map(({ name, value }) => [name, value]));
  added.set(words`--recipe ${name}`, chosen);
  const recipe = { name, source: recipeSource(name), choices };
  return { asked, options: { ...chosen, ...options }, added, preset, recipe };
}

const notIn = (before: TrainOptions, merged: TrainOptions): TrainOptions =>
  Object.fromEntries(Object.entries(merged).filter(([option]) => before[option as OptionName] === undefined));

/** Adds to a UsageError the source and values of the options that a source added. Returns other errors unchanged. */
export function nameSources(error: unknown, { added }: Sources): unknown {
  if (!(error instanceof UsageError)) return error;
  const named = [...added].flatMap(([source, options]) => {
    const found = Object.entries(options).filter(([name]) => error.fields.options?.includes(name));
    const typed = found.map(([name, value]) => `${spell(name as OptionName)}${value === true ? '' : ` ${value}`}`);
    return typed.length === 0 ? [] : `from ${source}: ${typed.join(', ')}`;
  });
  return named.length === 0 ? error : error.with({ sources: named.join('; ') });
}
