// Merges the options of a resumed run with those given again: each is used with a notice, or refused if it would break the run.
import { gpt2Error, usageError, words } from '../base/errors.ts';
import { customModel, hasSameLayers, presetConfig } from '../model/config.ts';
import { isRecordedAs } from '../weights/formats/hub.ts';
import { askedSteps, otherOf } from './complete-options.ts';
import { recordedValue } from './configuration.ts';
import { type OptionName, optionNames, optionRows, recordedNames, spell, type TrainOptions } from './table.ts';

/** The run to resume; undefined: the run starts at step 0. @throws UsageError for contradicting flags */
export function runToResume({ resume, overwrite, out }: TrainOptions): string | undefined {
  if (!resume) return undefined;
  if (overwrite) throw usageError`--resume and --overwrite exclude each other: give one of them`;
  if (!out) throw usageError`--resume needs --out, the folder of the run to continue`;
  return out;
}

/**
 * Options that are given, those of `before` otherwise. Another schedule ends as is its default, an end makes a constant rate fall,
 * an option ends the one in whose place it comes, and a model of the hub keeps its recorded commit.
 */
export function withGiven(before: TrainOptions, given: TrainOptions): TrainOptions {
  const { schedule, finalLearningRateFraction: final } = given;
  const kept = { ...before };
  if (schedule !== undefined && before.schedule !== undefined && schedule !== before.schedule) {
    delete kept.finalLearningRateFraction;
    delete kept.decayFraction;
  }
  if (schedule === undefined && final !== undefined && final !== 1 && before.schedule === 'constant') {
    delete kept.schedule;
  }
  for (const name of optionNames) {
    const other = otherOf(name);
    if (other && given[name] !== undefined) delete kept[other];
  }
  const merged = { ...kept, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
  if (isSameHubModel(before, given)) merged.model = before.model;
  return merged;
}

/**
 * The options with which a run continues.
 * @param before those of its checkpoint
 * @throws Gpt2Error if a given one would break it
 */
export function resumedOptions(
  before: TrainOptions,
  given: TrainOptions,
  notice: (text: string) => void,
): TrainOptions {
  const totalBatch = given.totalBatch ?? before.totalBatch;
  // A run records its steps, also where --tokens asks for them.
  const asked =
    totalBatch === undefined ? given : { ...given, steps: askedSteps(given, totalBatch), tokens: undefined };
  for (const name of recordedNames) {
    const [value, was] = [asked[name], recordedValue(before, name)];
    if (value === undefined || JSON.stringify(value) === JSON.stringify(was)) continue;
    const flag = spell(name);
    const refusal = refusalOf(name, before, given);
    if (refusal !== undefined) {
      throw gpt2Error`cannot resume ${given.out} with ${flag} ${value}: it was trained with ${was}${refusal}`;
    }
    const other = otherOf(name);
    const ended = other && before[other] !== undefined ? `${spell(other)} ${before[other]}` : undefined;
    if (name !== 'model') notice(`${flag} ${value} in place of the run's ${was ?? ended ?? 'default'}`);
  }
  return withGiven(before, asked);
}

/** Why another value is refused, to end the message; undefined: it is allowed. */
function refusalOf(name: OptionName, before: TrainOptions, given: TrainOptions): string | undefined {
  switch (optionRows[name].resume) {
    case 'never':
      return '';
    case 'with --order sequence':
      return before.order === 'sequence' ? undefined : words`; only --order sequence can continue with another split`;
    case 'to the same model':
      return isSameModel(before, given) ? undefined : '';
    default:
      return undefined;
  }
}

const isSameHubModel = ({ model: recorded }: TrainOptions, { model }: TrainOptions): boolean =>
  recorded !== undefined && model !== undefined && isRecordedAs(recorded, model);

/** Whether the given name, with the given sizes, is the model that was trained. */
function isSameModel(before: TrainOptions, given: TrainOptions): boolean {
  if (isSameHubModel(before, given)) return true;
  const preset = presetConfig(given.model!);
  return (
    (preset !== undefined || given.model === customModel) && hasSameLayers(withGiven({ ...preset }, given), before)
  );
}
