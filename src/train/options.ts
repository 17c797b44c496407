// Reads training options by their table (option-table.ts): texts and JSON values strictly, and what they mean together.
// `checkOptions` settles what depends on the device, and freezes the result.
import { Gpt2Error, UsageError } from '../errors.ts';
import { type CheckedJson, readCheckedJson } from '../files/checked-json.ts';
import { customModel, presetConfig, presetName } from '../model/config.ts';
import {
  fineTuningLearningRate,
  newModelLearningRate,
  type OptionName,
  type OptionRow,
  type OptionValue,
  optionTable,
  type TrainOptions,
} from './option-table.ts';

/**
 * Reads one option's text or JSON value strictly.
 * @throws UsageError naming the flag, what it takes and what came
 */
export function readOption(name: OptionName, value: unknown): OptionValue {
  const row: OptionRow = optionTable[name];
  const refuse = (wanted: string): never => {
    throw new UsageError(`${row.flag} takes ${wanted}, not ${JSON.stringify(value)}`);
  };
  if (row.read === 'switch') return typeof value === 'boolean' ? value : refuse('no value');
  if (row.read === 'text') {
    return typeof value === 'string' && (value !== '' || row.alone === '') ? value : refuse('a text');
  }
  if (Array.isArray(row.read))
    return row.read.includes(value as string) ? (value as string) : refuse(`one of ${row.read.join(', ')}`);
  if ('or' in row.read && value === row.read.or) return value as string;
  const isInteger = 'integer' in row.read;
  const [least, most] = isInteger
    ? (row.read as { integer: [number, number] }).integer
    : (row.read as { number: [number, number] }).number;
  const range =
    most === Number.MAX_SAFE_INTEGER || most === Number.MAX_VALUE ? `of at least ${least}` : `from ${least} to ${most}`;
  const alternative = 'or' in row.read ? ` or ${row.read.or}` : '';
  const wanted = `${isInteger ? 'a whole number' : 'a number'} ${range}${alternative}`;
  // Number('') is 0 and Number('0x10') is 16; neither is what somebody who typed it can have meant.
  if (typeof value === 'string' && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value)) return refuse(wanted);
  // Number([4]) is 4 and Number(true) is 1.
  const number = typeof value === 'number' || typeof value === 'string' ? Number(value) : Number.NaN;
  if (!Number.isFinite(number) || number < least || number > most) return refuse(wanted);
  if (isInteger && !Number.isSafeInteger(number)) return refuse(wanted);
  return number;
}

/** Reads an object of options, such as a config file. @throws UsageError for an unknown name or a wrong value */
export function readOptions(values: Record<string, unknown>, source: string): TrainOptions {
  const options: Record<string, OptionValue> = {};
  for (const [name, value] of Object.entries(values)) {
    if (name === 'vocabularySize' || value === undefined || value === null) continue;
    if (!Object.hasOwn(optionTable, name))
      throw new UsageError(`${source}: there is no option "${name}"; take it out, --help names those there are`);
    options[name] = readOption(name as OptionName, value);
  }
  return options as TrainOptions;
}

/**
 * Reads a file of options, such as a run's config.json, edited or not.
 * @throws Gpt2Error if it is not such a file; UsageError as `readOptions`
 */
export const readOptionsFile = (path: string): TrainOptions => optionsOf(openOptionsFile(path), path);

/** As `readOptionsFile`, for a run that resumes with it. @throws Gpt2Error if it is not what the run wrote */
export function readRunOptions(path: string): TrainOptions {
  const file = openOptionsFile(path);
  try {
    file.check();
  } catch (cause) {
    throw new Gpt2Error(
      `cannot resume from ${path}: ${(cause as Error).message}; restore it, or start another run with --config ${path}`,
      { cause },
    );
  }
  return optionsOf(file, path);
}

function openOptionsFile(path: string): CheckedJson {
  try {
    return readCheckedJson(path);
  } catch (cause) {
    throw new Gpt2Error(
      `the options file ${path} cannot be read: ${(cause as Error).message}; --config takes a JSON object of options, such as a run's config.json`,
      { cause },
    );
  }
}

function optionsOf({ value }: CheckedJson, path: string): TrainOptions {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Gpt2Error(`the options file ${path} must hold one JSON object, such as a run's config.json`);
  }
  return readOptions(value as Record<string, unknown>, path);
}

/** Options that mean something by not being given, or whose default depends on data. */
type Unsettled =
  | 'steps'
  | 'stopAfter'
  | 'keep'
  | 'keepEvery'
  | 'skipSpikes'
  | 'maxMemory'
  | 'layers'
  | 'channels'
  | 'heads'
  | 'context'
  | 'serve'
  | 'tensorboard'
  | 'out';

/** Options with every default that does not depend on data settled. */
export type SettledOptions = Readonly<
  Required<Omit<TrainOptions, 'config' | 'batch' | Unsettled>> &
    Pick<TrainOptions, Unsettled> & {
      /** Sequences in a micro-batch. */
      batch: number;
      /** Micro-batches in a step. */
      accumulation: number;
    }
>;

/**
 * Fills in defaults for a kind of device and checks what the options say together, before any file is opened.
 * @param longest positions of the weights that --model names, once they are known: no more is taken for a sequence by default
 * @throws UsageError
 */
export function checkOptions(
  options: TrainOptions,
  kind: 'cpu' | 'cuda',
  longest: number = Number.POSITIVE_INFINITY,
): SettledOptions {
  const defaults: Record<string, OptionValue> = {};
  for (const [name, row] of Object.entries(optionTable) as [string, OptionRow][]) {
    if (row.default !== undefined) defaults[name] = row.default;
  }
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const isCustom = options.model === customModel;
  const isNew = options.model === undefined || isCustom || presetConfig(options.model) !== undefined;
  const merged = {
    model: kind === 'cuda' ? 'd12' : 'd6',
    sequence: Math.min(kind === 'cuda' ? 1024 : 64, options.context ?? longest),
    learningRate: isNew ? newModelLearningRate : fineTuningLearningRate,
    dtype: kind === 'cuda' ? 'bf16' : 'fp32',
    ...defaults,
    ...given,
  } as TrainOptions & { batch: number | 'auto'; sequence: number; model: string };
  const { sequence, model, ranks = 1 } = merged;
  // Before it is chosen; what is chosen divides the step.
  const batch = merged.batch === 'auto' ? 1 : merged.batch;
  const together = batch * sequence * ranks;
  const totalBatch = merged.totalBatch ?? together;
  if (totalBatch % together !== 0) {
    const gpus = ranks > 1 ? ` x --gpus ${ranks}` : '';
    throw new UsageError(
      `--total-batch ${totalBatch} is not a multiple of --batch ${batch} x --seq ${sequence}${gpus} = ${together} tokens; take one that is`,
    );
  }
  if (isCustom && (!merged.layers || !merged.channels || !merged.heads)) {
    throw new UsageError(
      `--model ${customModel} has the sizes that are given: it needs --layers, --channels and --heads`,
    );
  }
  if (ranks > 1 && /^cuda:/.test(merged.device ?? '')) {
    throw new UsageError(`--device ${merged.device} is one GPU; with --gpus ${ranks} give --device cuda`);
  }
  const context = merged.context ?? presetConfig(model)?.context;
  if (context !== undefined && sequence > context) {
    throw new UsageError(`--seq ${sequence} is over the model's context of ${context} positions; take a shorter --seq`);
  }
  if (merged.steps !== undefined && (merged.warmup ?? 0) > merged.steps) {
    throw new UsageError(`--warmup ${merged.warmup} is over --steps ${merged.steps}; take a shorter --warmup`);
  }
  if (merged.keepEvery !== undefined && merged.keep === undefined) {
    throw new UsageError('--keep-every says what stays besides the newest: it needs --keep');
  }
  // They have defaults: what counts is whether they were given.
  if (options.serveHost !== undefined && options.serve === undefined) {
    throw new UsageError('--serve-host goes with --serve: give both');
  }
  // The run that is resumed may have the other.
  if (options.hellaswag !== undefined && options.hellaswagEvery === undefined && !merged.resume) {
    throw new UsageError('--hellaswag goes with --hellaswag-every, which says when its questions are asked: give both');
  }
  if (merged.resume && merged.overwrite)
    throw new UsageError('--resume and --overwrite exclude each other: give one of them');
  if (merged.resume && !merged.out) throw new UsageError('--resume needs --out, the folder of the run to continue');
  return Object.freeze({
    ...merged,
    batch,
    totalBatch,
    accumulation: totalBatch / together,
  }) as SettledOptions;
}

/** The model's name for run lines and folders: a preset where the sizes are one's. */
export const modelLabel = (config: Parameters<typeof presetName>[0]): string =>
  presetName(config) ?? `l${config.layers}-c${config.channels}-h${config.heads}`;
