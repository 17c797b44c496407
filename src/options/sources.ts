// Merges the options of all sources, once. An option that was set directly takes precedence over --config's file, the file over
// --preset, and --preset over --recipe.
import { UsageError, words } from '../base/errors.ts';
import { refuseBoth } from './complete-options.ts';
import { readPreset } from './presets.ts';
import { checkTrainOptions, readOptionsFile } from './read-options.ts';
import { recipeChoices, recipeSource } from './recipe.ts';
import { withGiven } from './resumed-options.ts';
import { type OptionName, spell, type TrainOptions } from './table.ts';

export type Sources = ReturnType<typeof resolveSources>;

/**
 * @returns `options`, the merged options; `added`: for each source, named as in "--preset shakespeare-laptop", the options that the
 * source added; `preset`, `recipe`: the name and the options that each added, in a recipe with the origin of each value.
 * @throws UsageError for a wrong option; as `readOptionsFile`, and as `recipeChoices`
 */
export function resolveSources(asked: TrainOptions) {
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
  const recipe = { name, source: recipeSource(name), choices: recipeChoices(name, options) };
  const chosen: TrainOptions = Object.fromEntries(recipe.choices.map(({ name, value }) => [name, value]));
  added.set(words`--recipe ${name}`, chosen);
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
