// THE table of training options: flag, meaning, default, range. The command line, --help, config files and the run's
// configuration all come from it; options.ts reads values by it.
import { modelPaths } from '../formats/stored-model.ts';
import { recomputeNames } from '../model/activations.ts';
import { customModel, presetNames } from '../model/config.ts';
import { scheduleNames } from './schedule.ts';

/** What an option can hold. */
export type OptionValue = string | number | boolean;

/** One row: how an option is written, read and defaulted. */
export interface OptionRow {
  readonly flag: string;
  /** Shown in --help after the flag; none for a switch. */
  readonly argument?: string;
  /** What the flag stands for without its argument, where that may be left out. */
  readonly alone?: OptionValue;
  readonly help: string;
  /** Shown in --help; the value itself is filled in by `checkOptions` where it depends on the device or the data. */
  readonly defaultText?: string;
  readonly default?: OptionValue;
  readonly read:
    | 'text'
    | 'switch'
    | { readonly integer: readonly [number, number]; readonly or?: string }
    | { readonly number: readonly [number, number] }
    | readonly string[];
}

const whole = (least: number, most: number = Number.MAX_SAFE_INTEGER) => ({ integer: [least, most] }) as const;
const real = (least: number, most: number = Number.MAX_VALUE) => ({ number: [least, most] }) as const;

/** Of the live page. */
export const defaultPort = 8042;
/** llm.c's default. */
export const newModelLearningRate = 3e-4;
/**
 * nanoGPT's for GPT-2 on new text, held as it is (--final-lr-frac is 1): AdamW's moments begin at zero, so that the first
 * updates are as large as the rate whatever the gradients are, and ten times as much would undo what the weights know.
 */
export const fineTuningLearningRate = 3e-5;

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
    argument: 'NAME|PATH',
    read: 'text',
    defaultText: 'd12 on CUDA, d6 on CPU',
    help: `${presetNames.join(', ')}; ${customModel}, of the sizes given; or weights to start from: ${modelPaths}`,
  },
  layers: { flag: '--layers', argument: 'N', read: whole(1, 1000), defaultText: "the model's", help: 'layers' },
  channels: { flag: '--channels', argument: 'N', read: whole(1, 65536), defaultText: "the model's", help: 'channels' },
  heads: { flag: '--heads', argument: 'N', read: whole(1, 1024), defaultText: "the model's", help: 'attention heads' },
  context: {
    flag: '--context',
    argument: 'N',
    read: whole(1, 65536),
    defaultText: "1024; the weights'",
    help: 'positions the model has; it may have fewer than the weights it starts from',
  },
  data: {
    flag: '--data',
    argument: 'DIR',
    read: 'text',
    default: 'data/tinyshakespeare',
    help: 'folder of token shards (see prepro)',
  },
  batch: {
    flag: '--batch',
    argument: 'B|auto',
    read: { ...whole(1, 65536), or: 'auto' },
    default: 4,
    help: 'sequences in a micro-batch; auto: as many as memory has room for, the step as it is',
  },
  sequence: {
    flag: '--seq',
    argument: 'T',
    read: whole(1, 65536),
    defaultText: '1024 on CUDA, 64 on CPU',
    help: 'tokens in a sequence',
  },
  ranks: {
    flag: '--gpus',
    argument: 'N',
    read: whole(1, 65536),
    default: 1,
    help: 'GPUs of this machine that train together, each by a process of its own (docs/ranks.md: on many machines)',
  },
  zero: {
    flag: '--zero',
    argument: '0|1',
    read: whole(0, 1),
    default: 1,
    help: 'with several GPUs: 1 spreads moments and master weights over them, 0 keeps all of them in each',
  },
  overlap: {
    flag: '--overlap',
    argument: 'WHEN',
    read: ['auto', 'on', 'off'],
    default: 'auto',
    help: 'with several GPUs: on exchanges gradients beside the backward pass, off behind it, auto beside it but where NCCL does it fast',
  },
  totalBatch: {
    flag: '--total-batch',
    argument: 'TOKENS',
    read: whole(1),
    defaultText: 'batch x seq x gpus',
    help: 'tokens in a step; micro-batches accumulate up to it',
  },
  recompute: {
    flag: '--recompute',
    argument: 'WHAT',
    read: recomputeNames,
    default: 'none',
    help: 'what backward computes again instead of keeping it, to the same bits: none, gelu (half the activations, some 10% slower), block (a fraction, some 30% slower)',
  },
  maxMemory: {
    flag: '--max-memory',
    argument: 'GIB',
    read: real(0.1, 1_000_000),
    defaultText: 'all that is free',
    help: 'device memory that may be taken, in GiB',
  },
  dryRun: {
    flag: '--dry-run',
    read: 'switch',
    default: false,
    help: 'say what memory the run would take and what a step would be, and end',
  },
  learningRate: {
    flag: '--lr',
    argument: 'X',
    read: real(0),
    defaultText: `${newModelLearningRate}; from weights of --model ${fineTuningLearningRate}, as nanoGPT fine-tunes`,
    help: 'peak learning rate',
  },
  warmup: { flag: '--warmup', argument: 'N', read: whole(0), default: 0, help: 'steps of linear warmup' },
  finalLearningRateFraction: {
    flag: '--final-lr-frac',
    argument: 'X',
    read: real(0, 1),
    default: 1,
    help: 'share of the learning rate that --schedule ends at; 1 holds it constant',
  },
  schedule: {
    flag: '--schedule',
    argument: 'NAME',
    read: scheduleNames,
    default: 'cosine',
    help: `how the rate falls to --final-lr-frac: ${scheduleNames.join(', ')} (the last fifth alone)`,
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
  hellaswagEvery: {
    flag: '--hellaswag-every',
    argument: 'N',
    read: whole(0),
    default: 0,
    help: 'steps between evaluations on HellaSwag, and at the end; 0: none',
  },
  hellaswag: {
    flag: '--hellaswag',
    argument: 'FILE',
    read: 'text',
    default: 'data/hellaswag/hellaswag_val.bin',
    help: "with --hellaswag-every: its questions, in llm.c's format",
  },
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
  keep: { flag: '--keep', argument: 'N', read: whole(1), defaultText: 'all', help: 'newest checkpoints to keep' },
  keepEvery: {
    flag: '--keep-every',
    argument: 'M',
    read: whole(1),
    help: 'with --keep: checkpoints of every M-th step stay as well',
  },
  skipSpikes: {
    flag: '--skip-spikes',
    argument: 'Z',
    read: real(1),
    help: 'leave out the update of a step whose loss or norm is over the mean of the last 128 by Z standard deviations',
  },
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
    defaultText: 'runs/<DATA>-<MODEL>-<TIME>',
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
    help: 'replace the run in --out; keep its log',
  },
  config: {
    flag: '--config',
    argument: 'FILE',
    read: 'text',
    help: "options from a JSON file, such as a run's config.json; flags come first",
  },
  serve: {
    flag: '--serve',
    argument: 'PORT',
    alone: defaultPort,
    read: whole(0, 65535),
    help: `show the run in a browser while it trains; without PORT at ${defaultPort}, with 0 at any that is free`,
  },
  serveHost: {
    flag: '--serve-host',
    argument: 'ADDRESS',
    read: 'text',
    default: '127.0.0.1',
    help: "address that --serve listens at; other than this machine's own, others can read the run: there is no password",
  },
  tensorboard: {
    flag: '--tensorboard',
    argument: 'DIR',
    alone: '',
    read: 'text',
    help: "write the curves as TensorBoard's event files too; without DIR into the run folder",
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
  'maxMemory',
  'dryRun',
  'serve',
  'serveHost',
  'tensorboard',
] as const satisfies readonly OptionName[];

type ValueOf<R> = R extends 'switch'
  ? boolean
  : R extends 'text'
    ? string
    : R extends readonly (infer S)[]
      ? S
      : R extends { readonly or: infer S }
        ? number | S
        : number;
/** Options as given: any may be missing. */
export type TrainOptions = { -readonly [K in OptionName]?: ValueOf<(typeof optionTable)[K]['read']> };
