// Merges the options of a resumed run with new ones: each new option is used with a notice, or refused if it would break the run.
import { gpt2Error, usageError, words } from '../base/errors.ts';
import { customModel, hasSameLayers, presetConfig } from '../model/config.ts';
import { isRecordedAs } from '../weights/formats/hub.ts';
import { askedSteps, defaultWarmup, otherOf, sizeNames } from './complete-options.ts';
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
 * Merges options: values of `asked` replace values of `before`. Some of `before` are dropped, so that defaults apply: final rate and
 * decay if the schedule changes; a default warmup if steps are set, because it depends on steps; a constant schedule if the final rate
 * is set below 1; an option if its alternative (`insteadOf`) is set; sizes if the model changes. A hub model keeps its recorded commit.
 */
export function withGiven(before: TrainOptions, asked: TrainOptions): TrainOptions {
  const { schedule, finalLearningRateFraction: final } = asked;
  const kept = { ...before };
  if (schedule !== undefined && before.schedule !== undefined && schedule !== before.schedule) {
    delete kept.finalLearningRateFraction;
    delete kept.decayFraction;
  }
  if (schedule === undefined && final !== undefined && final !== 1 && before.schedule === 'constant') {
    delete kept.schedule;
  }
  const warmup = before.steps === undefined ? 0 : defaultWarmup(before.steps);
  if ((asked.steps ?? asked.tokens) !== undefined && warmup > 0 && before.warmup === warmup) delete kept.warmup;
  for (const name of optionNames) {
    const other = otherOf(name);
    if (other && asked[name] !== undefined) delete kept[other];
  }
  const merged = { ...kept, ...Object.fromEntries(Object.entries(asked).filter(([, value]) => value !== undefined)) };
  if (isSameHubModel(before, asked)) return { ...merged, model: before.model };
  if (![undefined, customModel, before.model].includes(asked.model) && before.model !== undefined) {
    for (const name of sizeNames) if (asked[name] === undefined) delete merged[name];
  }
  return merged;
}

/**
 * The options with which a run continues.
 * @param before options of the checkpoint
 * @throws Gpt2Error if an option would break the run
 */
export function resumedOptions(before: TrainOptions, asked: TrainOptions, notice: (text: string) => void) {
  const totalBatch = asked.totalBatch ?? before.totalBatch;
  // Convert --tokens to steps, because runs record only steps.
  const inSteps =
    totalBatch === undefined ? asked : { ...asked, steps: askedSteps(asked, totalBatch), tokens: undefined };
  for (const name of recordedNames) {
    const [value, was] = [inSteps[name], recordedValue(before, name)];
    if (value === undefined || JSON.stringify(value) === JSON.stringify(was)) continue;
    const flag = spell(name);
    const refusal = refusalOf(name, before, asked);
    if (refusal !== undefined) {
      throw gpt2Error`cannot resume ${asked.out} with ${flag} ${value}: it was trained with ${was ?? 'none'}${refusal}`;
    }
    const other = otherOf(name);
    const ended = other && before[other] !== undefined ? `${spell(other)} ${before[other]}` : undefined;
    if (name !== 'model') notice(`${flag} ${value} in place of the run's ${was ?? ended ?? 'default'}`);
  }
  return withGiven(before, inSteps);
}

/** The end of the error message if --resume may not change the option; undefined if --resume may. */
function refusalOf(name: OptionName, before: TrainOptions, asked: TrainOptions): string | undefined {
  switch (optionRows[name].resume) {
    case 'never':
      return '';
    case 'with --order sequence':
      return before.order === 'sequence' ? undefined : words`; only --order sequence can continue with another split`;
    case 'to the same model':
      return isSameModel(before, asked) ? undefined : '';
    default:
      return undefined;
  }
}

const isSameHubModel = ({ model: recorded }: TrainOptions, { model }: TrainOptions): boolean =>
  recorded !== undefined && model !== undefined && isRecordedAs(recorded, model);

/** Whether `asked` names the model that the run trained, with the same sizes. */
function isSameModel(before: TrainOptions, asked: TrainOptions): boolean {
  if (isSameHubModel(before, asked)) return true;
  const preset = presetConfig(asked.model!);
  const isSized = preset !== undefined || asked.model === customModel;
  return isSized && hasSameLayers(withGiven({ ...preset }, asked), before);
}
