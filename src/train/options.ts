// THE table of training options: flag, meaning, default, range. The command line, --help, config files and the run's
// configuration all come from it. `checkOptions` settles what depends on something else, and freezes the result.
import { UsageError } from '../errors.ts';
import { presetConfig, presetName, presetNames } from '../model/config.ts';
import { scheduleNames } from './schedule.ts';

type Value = string | number | boolean;

/** One row: how an option is written, read and defaulted. */
export interface OptionRow {
  readonly flag: string;
  /** Shown in --help after the flag; none for a switch. */
  readonly argument?: string;
  readonly help: string;
  /** Shown in --help; the value itself is filled in by `checkOptions` where it depends on the device or the data. */
  readonly defaultText?: string;
  readonly default?: Value;
  readonly read:
    | 'text'
    | 'switch'
    | { readonly integer: readonly [number, number] }
    | { readonly number: readonly [number, number] }
    | readonly string[];
}

const whole = (least: number, most: number = Number.MAX_SAFE_INTEGER) => ({ integer: [least, most] }) as const;
const real = (least: number, most: number = Number.MAX_VALUE) => ({ number: [least, most] }) as const;

/** Keyed by the option's name in the configuration. */
export const optionTable = {
  steps: {
    flag: '--steps',
    argument: 'N',
    read: whole(1),
    defaultText: 'one epoch',
    help: 'optimizer steps; the schedule spans them',
  },
  stopAfter: { flag: '--stop-after', argument: 'N', read: whole(1), help: 'end this run, saved, after N steps in all' },
  model: {
    flag: '--model',
    argument: 'NAME|DIR',
    read: 'text',
    defaultText: 'd12 on CUDA, d6 on CPU',
    help: `${presetNames.join(', ')}; or a checkpoint or run to start from`,
  },
  layers: { flag: '--layers', argument: 'N', read: whole(1, 1000), defaultText: "the model's", help: 'layers' },
  channels: { flag: '--channels', argument: 'N', read: whole(1, 65536), defaultText: "the model's", help: 'channels' },
  heads: { flag: '--heads', argument: 'N', read: whole(1, 1024), defaultText: "the model's", help: 'attention heads' },
  context: {
    flag: '--context',
    argument: 'N',
    read: whole(1, 65536),
    defaultText: '1024',
    help: 'positions the model has',
  },
  data: {
    flag: '--data',
    argument: 'DIR',
    read: 'text',
    default: 'data/tinyshakespeare',
    help: 'folder of token shards (see prepro)',
  },
  batch: { flag: '--batch', argument: 'B', read: whole(1, 65536), default: 4, help: 'sequences in a micro-batch' },
  sequence: {
    flag: '--seq',
    argument: 'T',
    read: whole(1, 65536),
    defaultText: '1024 on CUDA, 64 on CPU',
    help: 'tokens in a sequence',
  },
  totalBatch: {
    flag: '--total-batch',
    argument: 'TOKENS',
    read: whole(1),
    defaultText: 'batch x seq',
    help: 'tokens in a step; micro-batches accumulate up to it',
  },
  learningRate: { flag: '--lr', argument: 'X', read: real(0), default: 3e-4, help: 'peak learning rate' },
  warmup: { flag: '--warmup', argument: 'N', read: whole(0), default: 0, help: 'steps of linear warmup' },
  finalLearningRateFraction: {
    flag: '--final-lr-frac',
    argument: 'X',
    read: real(0, 1),
    default: 1,
    help: 'share of the learning rate left at the end',
  },
  schedule: {
    flag: '--schedule',
    argument: 'NAME',
    read: scheduleNames,
    default: 'cosine',
    help: scheduleNames.join(', '),
  },
  weightDecay: {
    flag: '--weight-decay',
    argument: 'X',
    read: real(0),
    default: 0,
    help: 'AdamW weight decay of matrices',
  },
  gradientClip: {
    flag: '--grad-clip',
    argument: 'X',
    read: real(0),
    default: 1,
    help: 'largest gradient norm; 0 clips nothing',
  },
  valEvery: {
    flag: '--val-every',
    argument: 'N',
    read: whole(0),
    default: 20,
    help: 'steps between validations; 0: none',
  },
  valSteps: { flag: '--val-steps', argument: 'N', read: whole(1), default: 20, help: 'batches in a validation' },
  sampleEvery: {
    flag: '--sample-every',
    argument: 'N',
    read: whole(0),
    default: 20,
    help: 'steps between samples of text; 0: none',
  },
  saveEvery: {
    flag: '--save-every',
    argument: 'N',
    read: whole(0),
    default: 0,
    help: 'steps between checkpoints; 0: at the end and on Ctrl-C only',
  },
  keep: { flag: '--keep', argument: 'N', read: whole(1), defaultText: 'all', help: 'checkpoints to keep' },
  device: { flag: '--device', argument: 'NAME', read: 'text', default: 'auto', help: 'auto, cuda, cuda:N, cpu' },
  dtype: {
    flag: '--dtype',
    argument: 'NAME',
    read: ['fp32', 'tf32', 'bf16'],
    defaultText: 'bf16 on CUDA, fp32 on CPU',
    help: 'fp32, tf32, bf16',
  },
  threads: { flag: '--threads', argument: 'N', read: whole(0, 1024), default: 0, help: 'CPU threads; 0: all cores' },
  seed: {
    flag: '--seed',
    argument: 'N',
    read: whole(0, 2 ** 32 - 1),
    default: 42,
    help: 'of the initial weights and the order of batches',
  },
  order: {
    flag: '--order',
    argument: 'NAME',
    read: ['llmc', 'file', 'sequence'],
    default: 'llmc',
    help: 'llmc: batches shuffled as llm.c does; file: as they lie; sequence: single sequences shuffled',
  },
  overfitBatch: {
    flag: '--overfit-batch',
    read: 'switch',
    default: false,
    help: 'train on the first batch again and again',
  },
  out: {
    flag: '--out',
    argument: 'DIR',
    read: 'text',
    defaultText: 'runs/<data>-<model>-<time>',
    help: 'run folder: log, config, checkpoints',
  },
  resume: {
    flag: '--resume',
    read: 'switch',
    default: false,
    help: 'continue the run in --out from its newest valid checkpoint',
  },
  overwrite: {
    flag: '--overwrite',
    read: 'switch',
    default: false,
    help: 'start anew in an --out that already holds a run',
  },
  config: {
    flag: '--config',
    argument: 'FILE',
    read: 'text',
    help: "options from a JSON file, such as a run's config.json; flags come first",
  },
  json: { flag: '--json', read: 'switch', default: false, help: 'events as JSON lines on stdout, no progress' },
} as const satisfies Record<string, OptionRow>;

export type OptionName = keyof typeof optionTable;

/** Options that say how to run rather than what: they are not part of a run's configuration. */
export const runOnlyOptions = [
  'out',
  'resume',
  'overwrite',
  'config',
  'json',
  'stopAfter',
] as const satisfies readonly OptionName[];

type ValueOf<R> = R extends 'switch'
  ? boolean
  : R extends 'text'
    ? string
    : R extends readonly (infer S)[]
      ? S
      : number;
/** Options as given: any may be missing. */
export type TrainOptions = { -readonly [K in OptionName]?: ValueOf<(typeof optionTable)[K]['read']> };

/**
 * Reads one option's text or JSON value strictly.
 * @throws UsageError naming the flag, what it takes and what came
 */
export function readOption(name: OptionName, value: unknown): Value {
  const row: OptionRow = optionTable[name];
  const refuse = (wanted: string): never => {
    throw new UsageError(`${row.flag} takes ${wanted}, not ${JSON.stringify(value)}`);
  };
  if (row.read === 'switch') return typeof value === 'boolean' ? value : refuse('no value');
  if (row.read === 'text') return typeof value === 'string' && value !== '' ? value : refuse('a text');
  if (Array.isArray(row.read))
    return row.read.includes(value as string) ? (value as string) : refuse(`one of ${row.read.join(', ')}`);
  const isInteger = 'integer' in row.read;
  const [least, most] = isInteger
    ? (row.read as { integer: [number, number] }).integer
    : (row.read as { number: [number, number] }).number;
  const range =
    most === Number.MAX_SAFE_INTEGER || most === Number.MAX_VALUE ? `of at least ${least}` : `from ${least} to ${most}`;
  const wanted = `${isInteger ? 'a whole number' : 'a number'} ${range}`;
  // Number('') is 0 and Number('0x10') is 16; neither is what somebody who typed it can have meant.
  if (typeof value === 'string' && !/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(value)) return refuse(wanted);
  const number = typeof value === 'number' ? value : Number(value);
  if (!Number.isFinite(number) || number < least || number > most) return refuse(wanted);
  if (isInteger && !Number.isSafeInteger(number)) return refuse(wanted);
  return number;
}

/** Reads an object of options, such as a config file. @throws UsageError for an unknown name or a wrong value */
export function readOptions(values: Record<string, unknown>, source: string): TrainOptions {
  const options: Record<string, Value> = {};
  for (const [name, value] of Object.entries(values)) {
    if (name === 'vocabularySize' || value === undefined || value === null) continue;
    if (!(name in optionTable)) throw new UsageError(`${source}: there is no option "${name}"`);
    options[name] = readOption(name as OptionName, value);
  }
  return options as TrainOptions;
}

/** Options with every default that does not depend on data settled. */
export type SettledOptions = Readonly<
  Required<
    Omit<TrainOptions, 'steps' | 'stopAfter' | 'keep' | 'layers' | 'channels' | 'heads' | 'context' | 'config' | 'out'>
  > &
    Pick<TrainOptions, 'steps' | 'stopAfter' | 'keep' | 'layers' | 'channels' | 'heads' | 'context' | 'out'> & {
      /** Micro-batches in a step. */
      accumulation: number;
    }
>;

/**
 * Fills in defaults for a kind of device and checks what the options say together, before any file is opened.
 * @throws UsageError
 */
export function checkOptions(options: TrainOptions, kind: 'cpu' | 'cuda'): SettledOptions {
  const defaults: Record<string, Value> = {};
  for (const [name, row] of Object.entries(optionTable) as [string, OptionRow][]) {
    if (row.default !== undefined) defaults[name] = row.default;
  }
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const merged = {
    model: kind === 'cuda' ? 'd12' : 'd6',
    sequence: kind === 'cuda' ? 1024 : 64,
    dtype: kind === 'cuda' ? 'bf16' : 'fp32',
    ...defaults,
    ...given,
  } as TrainOptions & { batch: number; sequence: number; model: string };
  const { batch, sequence, model } = merged;
  const totalBatch = merged.totalBatch ?? batch * sequence;
  if (totalBatch % (batch * sequence) !== 0) {
    throw new UsageError(
      `--total-batch ${totalBatch} is not a multiple of --batch ${batch} x --seq ${sequence} = ${batch * sequence} tokens`,
    );
  }
  const context = merged.context ?? presetConfig(model)?.context;
  if (context !== undefined && sequence > context) {
    throw new UsageError(`--seq ${sequence} is over the model's context of ${context} positions`);
  }
  if (merged.steps !== undefined && (merged.warmup ?? 0) > merged.steps) {
    throw new UsageError(`--warmup ${merged.warmup} is over --steps ${merged.steps}`);
  }
  if (merged.resume && merged.overwrite) throw new UsageError('--resume and --overwrite exclude each other');
  if (merged.resume && !merged.out) throw new UsageError('--resume needs --out, the folder of the run to continue');
  return Object.freeze({ ...merged, totalBatch, accumulation: totalBatch / (batch * sequence) }) as SettledOptions;
}

/** The model's name for run lines and folders: a preset where the sizes are one's. */
export const modelLabel = (config: Parameters<typeof presetName>[0]): string =>
  presetName(config) ?? `l${config.layers}-c${config.channels}-h${config.heads}`;
