// Writes, checks and compares configurations (the content of config.json): the options of a run, as the options table defines them.
import { basename } from 'node:path';
import * as z from 'zod';
import { gpt2Error } from '../base/errors.ts';
import { shellWord } from '../base/wording.ts';
import { isNewModel, type ModelConfig, modelName } from '../model/config.ts';
import { unlikeDefaults } from './complete-options.ts';
import { type OptionRow, type ProgramPart, programParts } from './row.ts';
import {
  type Configuration,
  flagNamed,
  type OptionName,
  optionRows,
  type ResolvedOptions,
  recordedNames,
  rowNamed,
} from './table.ts';
import { trainingRows } from './training-rows.ts';

const isPart = (name: string): boolean => programParts.includes(name as ProgramPart);

/** The recorded value of an option in whose place a program passed a function or object. */
export const ofProgram = 'of the program';

const partField = (what: string) => ({
  schema: z.literal(ofProgram).optional(),
  meaning: `"${ofProgram}" if a program gave the ${what}`,
});

/** Fields of a configuration that are not options. */
export const derivedFields = {
  vocabularySize: { schema: z.int(), meaning: 'tokens of the vocabulary, from the data or the starting weights' },
  endOfText: {
    schema: z.int().optional(),
    meaning: 'with --document-mask: the token that begins a document, from the tokenizer',
  },
  cards: {
    schema: z.string().optional(),
    meaning: 'ops that --kernel computes, each with a hash of card, source and included files',
  },
  batches: partField('batches'),
  validation: partField('batches of validations'),
} as const;

/** The schema of config.json. The schema checks types, not ranges, and allows fields of later versions. */
export const configurationSchema = z.looseObject({
  ...Object.fromEntries(recordedNames.map((name) => [name, fieldSchema(name, optionRows[name])])),
  ...Object.fromEntries(Object.entries(derivedFields).map(([name, { schema }]) => [name, schema])),
});

function fieldSchema(name: string, { type, optional, without }: OptionRow): z.ZodType {
  const schema = isPart(name) ? z.union([valueSchema(type), z.literal(ofProgram)]) : valueSchema(type);
  return optional || without ? schema.optional() : schema;
}

function valueSchema(type: OptionRow['type']): z.ZodType {
  if (type === 'text') return z.string();
  if (type === 'texts') return z.array(z.string());
  if (type === 'switch') return z.boolean();
  if ('switch' in type) return z.union([z.boolean(), z.literal(type.or)]);
  if ('integer' in type && type.orTime) return z.union([z.int(), z.string()]);
  if ('integer' in type) return type.orAll ? z.union([z.int(), z.literal('all')]) : z.int();
  return 'number' in type ? z.number() : z.enum(type);
}

/** Whether a field of a configuration records that a program passed a function or object in its place. */
export const isOfProgram = (name: string, value: unknown): boolean => isPart(name) && value === ofProgram;

export const partsIn = (configuration: object): string[] =>
  Object.entries(configuration).flatMap(([name, value]) => (isOfProgram(name, value) ? [name] : []));

/** Whether the option has no effect because a program passes a schedule or optimizer. @param parts names of all that it passes */
function isReplaced(name: string, parts: readonly string[]): boolean {
  const { without, onlyWith } = rowNamed(name) ?? {};
  const replacing = parts.filter((part) => part === 'schedule' || part === 'optimizer');
  return replacing.some((part) => part === without || part === onlyWith?.option);
}

/**
 * Checks that a program passes the same parts (schedule, optimizer, batches, validation) as when the configuration was recorded.
 * @param parts names of the parts that the program passes now @throws Gpt2Error if they differ
 */
export function checkSameParts(where: string, recorded: object, parts: readonly string[]): void {
  const before = partsIn(recorded);
  const missing = before.filter((name) => !parts.includes(name));
  if (missing.length > 0) {
    throw gpt2Error`${where} was trained with ${missing.join(', ')} of a program: resume it from that program, which gives them again`;
  }
  const added = parts.filter((name) => !before.includes(name));
  if (added.length > 0)
    throw gpt2Error`${where} was trained without ${added.join(', ')} of a program: start another run`;
}

/** The configuration of a run of `steps` steps on the model `config`. @param cards hashes of kernel cards */
export function configurationOf(
  options: ResolvedOptions,
  config: ModelConfig,
  steps: number,
  cards?: string,
  parts: readonly string[] = [],
): Configuration {
  const { optimizer, embeddingLearningRate, headLearningRate } = options;
  // With a program's schedule, learningRate has an effect only through other rates, which are applied as multiples of learningRate.
  const hasMultiples = optimizer === 'muon' || (embeddingLearningRate ?? headLearningRate) !== undefined;
  const isBase = (name: string) => name === 'learningRate' && hasMultiples && !parts.includes('optimizer');
  const recorded = recordedNames
    .map((name) => [name, options[name]] as const)
    .filter(([name, value]) => value !== undefined && (isBase(name) || !isReplaced(name, parts)));
  const model = modelName(options.model, config);
  const all = { ...Object.fromEntries(recorded), model, ...config, steps, ...(cards ? { cards } : {}) };
  return { ...all, ...Object.fromEntries(parts.map((name) => [name, ofProgram])) } as Configuration;
}

/** The command that starts a run of this configuration on any machine; the run gets a new folder. */
export const commandOf = (configuration: Configuration): string =>
  Object.entries(unlikeDefaults(configuration))
    .flatMap(([name, value]) => {
      const flag = flagNamed(name as OptionName);
      return [value].flat().map((one) => (one === true ? flag : `${flag} ${shellWord(String(one))}`));
    })
    .reduce((command, option) => `${command} ${option}`, 'npx gpt2 train');

/** The options on which ranks must agree; paths, devices and threads depend on the machine. */
export const agreedOptions = (configuration: Configuration): Record<string, unknown> =>
  Object.fromEntries(Object.entries(configuration).filter(([name]) => !rowNamed(name)?.perMachine));

/** The value of a field in an earlier configuration. For an option that was added later, the value is the option's default. */
export function recordedValue(before: Readonly<Record<string, unknown>>, field: string): unknown {
  const { optional, default: value } = rowNamed(field) ?? {};
  const hasDefault = optional && typeof value !== 'object' && !isReplaced(field, partsIn(before));
  return before[field] ?? (hasDefault ? value : undefined);
}

/** Whether runs with different values of a field count as different. @param isConstant whether both runs' learning rate is constant */
export function isCompared(field: string, isConstant = false): boolean {
  const compare = rowNamed(field)?.compare;
  return compare !== 'no' && !(compare === 'if the rate falls' && isConstant);
}

/** A value as recorded curves and tables show it: of paths of data or HellaSwag questions, only the last component. */
export const shortValue = (field: string, value: unknown): unknown =>
  rowNamed(field)?.compare === 'by file name' && typeof value === 'string' ? basename(value) : value;

/** A field of config.json that differs: its values in a run, and in the reference or the other run. */
type Mismatch = { readonly field: string; readonly run: unknown; readonly reference: unknown };

/**
 * The fields in which a run's configuration differs from a reference's. Ignored are fields of validation (report/measured.ts compares
 * the validated tokens) and the preset name of a new model, whose sizes are separate fields; a path to trained weights is compared. An
 * option that is newer than the reference, such as the optimizer, counts in the reference as its default.
 */
export function mismatches(
  configuration: Configuration,
  { configuration: wanted }: { readonly configuration: Readonly<Record<string, unknown>> },
): Mismatch[] {
  const isNew = isNewModel(configuration.model);
  const run: Record<string, unknown> = isNew ? { ...configuration, model: wanted.model } : configuration;
  const isConstant = hasConstantRate(run) && hasConstantRate(wanted);
  const later = Object.keys(trainingRows).filter((field) => rowNamed(field)?.optional && !(field in wanted));
  return [...Object.keys(wanted), ...later]
    .filter((field) => isCompared(field, isConstant) && rowNamed(field)?.compare !== 'without validation')
    .map((field) => ({
      ...{ field, run: shortValue(field, recordedValue(run, field)) },
      reference: recordedValue(wanted, field),
    }))
    .filter(({ run, reference }) => run !== reference);
}

/** Differing fields in words: "batch 8 instead of 4, seed 1 instead of 42". */
export const describeMismatches = (fields: readonly Mismatch[]): string =>
  fields.map(({ field, run, reference }) => `${field} ${nameOf(run)} instead of ${nameOf(reference)}`).join(', ');

const nameOf = (value: unknown): unknown => (value === ofProgram ? "the program's" : (value ?? 'none'));

/** The fields in which two runs differ. Unlike `mismatches`, compares `steps` even if both learning rates are constant. */
export function configurationDifferences(run: Record<string, unknown>, other: Record<string, unknown>): Mismatch[] {
  const isConstant = hasConstantRate(run) && hasConstantRate(other);
  return [...new Set([...Object.keys(run), ...Object.keys(other)])]
    .map((field) => ({ field, run: recordedValue(run, field), reference: recordedValue(other, field) }))
    .filter(({ field, run, reference }) => run !== reference && (field === 'steps' || isCompared(field, isConstant)));
}

/** Whether the learning rate is constant after the warmup. A constant rate does not depend on the number of steps. */
const hasConstantRate = ({ schedule, finalLearningRateFraction }: Record<string, unknown>): boolean =>
  schedule === 'constant' || finalLearningRateFraction === 1;
