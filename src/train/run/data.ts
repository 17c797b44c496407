// Opens the data of a run: training batches, validation batches, HellaSwag. The device is opened later, so bad data fail early.
import { resolve } from 'node:path';
import { gpt2Error, usageError, words } from '../../base/errors.ts';
import { type Batch, type Loader, openLoader, planValidation } from '../../data/batches/loader.ts';
import { startPosition } from '../../data/batches/order.ts';
import { openSequences, type SequenceSet } from '../../data/batches/sequences.ts';
import { readDatasetTokenizer } from '../../data/shards/dataset-file.ts';
import { type Hellaswag, readHellaswag } from '../../inference/evaluate/hellaswag.ts';
import { askedSteps, defaultWarmup } from '../../options/complete-options.ts';
import { byteLengths, noByteLengths } from '../../tokenizer/tokenizer.ts';
import type { FoundCheckpoint } from '../../weights/checkpoint/directory.ts';
import { stepsOf } from '../plan/outlook.ts';
import { type BatchesOfRank, type BatchSource, sourceOf } from '../plan/program-parts.ts';
import type { Opening } from './opening.ts';
import { changedShard, shardRecord } from './same-inputs.ts';

/** The data of a validation: sequences for --val-tokens, or batches for --val-steps. */
export type Validation = ValidationSequences | ValidationBatches;

interface ValidationSequences {
  readonly set: SequenceSet;
  readonly shards: Loader['shards'];
  /** Number of bytes of each token's text, by token id; undefined if unknown. */
  readonly lengths: Uint8Array | undefined;
}

/** A validation as in llm.c: batches from the start of the validation set. */
export interface ValidationBatches {
  /** If a program's loader cannot seek, each validation reads the next batches instead of the first ones again. */
  readonly loader: Pick<BatchSource, 'next' | 'seek' | 'canSeek'>;
  readonly shards: Loader['shards'];
  /** Number of ranks that share each batch. */
  readonly ranks: number;
  readonly batch: number;
  readonly sequence: number;
  /** Number of batches whose losses are averaged. The set has `different` batches; if `batches` is larger, the set is repeated. */
  readonly batches: number;
  readonly different: number;
}

/** Default of valSteps for a validation on a program's batches, as in llm.c. */
const programBatches = 20;

export type RunData = Readonly<Omit<ReturnType<typeof openData>, 'steps' | 'warmup'>>;

/** @throws Gpt2Error for data that are damaged, changed or too small; UsageError for a program's batches without `steps` */
export function openData(opening: Opening) {
  const { resolved, resources } = opening;
  const { options, config, checkpoint, start, trainShards: shards, parts } = resolved;
  const { batch, sequence, order, seed, ranks, data, totalBatch } = options;
  const { vocabularySize, endOfText } = config;
  const rank = opening.ranks?.rank ?? 0;
  const loader: BatchSource = parts.batches
    ? ofProgram('batches', parts.batches, rank, opening)
    : resources.keep(openLoader({ shards, batch, sequence, order, seed, vocabularySize, rank, ranks, endOfText }));
  if (checkpoint) seekTo(loader, checkpoint, data);
  if (parts.batches && askedSteps(options, totalBatch) === undefined) {
    throw usageError`the batches of a program have no end; give steps`;
  }
  const steps = stepsOf(options, loader.tokens);
  // A resumed run lacks `warmup` only if new steps have reset a new model's default warmup, so use the default for a new model.
  const { warmup = defaultWarmup(steps, start !== undefined && !checkpoint) } = options;
  const validation = options.valEvery > 0 ? openValidation(opening, rank) : undefined;
  const sources = [loader, validation && 'loader' in validation ? validation.loader : undefined];
  const isResumable = sources.every((source) => source?.canSeek !== false);
  return { steps, warmup, loader, validation, isResumable, hellaswag: openHellaswag(opening) };
}

/** Opens the calling program's batches. Prints a notice if they cannot be read a second time. */
function ofProgram(
  name: 'batches' | 'validation',
  batches: BatchesOfRank,
  rank: number,
  { resolved, notice }: Opening,
): BatchSource {
  const source = sourceOf(name, batches, { rank, ranks: resolved.options.ranks });
  const others = name === 'validation' ? ', and each validation reads other batches' : '';
  if (!source.canSeek) notice(`${name} without position() and seek(): the run cannot be resumed${others}`);
  return source;
}

/** Moves the loader to a checkpoint's position. @throws Gpt2Error if the shards have changed, unless --data names another folder */
function seekTo(
  loader: Pick<Loader, 'shards' | 'seekAsRoot'>,
  { path, manifest }: FoundCheckpoint,
  data: string,
): void {
  const changed = changedShard(manifest.shards, loader.shards.map(shardRecord));
  if (changed && resolve(data) === resolve(String(manifest.configuration.data))) {
    throw gpt2Error`the data in ${data} is not what ${path} was trained on: ${changed}; restore it, or name another folder with --data to continue with that`;
  }
  loader.seekAsRoot(manifest.position);
}

function openValidation(opening: Opening, rank: number): Validation | undefined {
  const { resolved, notice, resources } = opening;
  const { options, config, valShards: shards, parts, checkpoint } = resolved;
  const { sequence, seed, valSteps, valTokens = 'all' } = options;
  const { vocabularySize } = config;
  if (parts.validation) {
    const { batch, ranks } = options;
    const loader = ofProgram('validation', parts.validation, rank, opening);
    if (checkpoint && !loader.canSeek) throw gpt2Error`cannot resume ${options.out}: validation has no seek(position)`;
    const batches = valSteps ?? programBatches;
    return { loader, shards: [], ranks, batch, sequence, batches, different: Number.POSITIVE_INFINITY };
  }
  if (parts.batches) {
    notice('validation is off: the program gives batches, but no validation');
    return undefined;
  }
  if (valSteps === undefined) {
    const set = resources.keep(openSequences({ shards, sequence, tokens: valTokens, vocabularySize }));
    for (const text of set.notices) notice(`validation: ${text}`);
    const tokenizer = readDatasetTokenizer(options.data);
    const lengths = byteLengths(tokenizer, vocabularySize);
    if (!lengths) notice(`validation: no bits per byte: ${noByteLengths(tokenizer)}`);
    return set.count > 0 ? { set, shards: set.shards, lengths } : undefined;
  }
  const plan = planValidation({ shards, batch: options.batch, sequence, ranks: options.ranks });
  if (plan.notice) notice(plan.notice);
  if (!plan.batch) return undefined;
  const { batch, ranks, batches: different } = plan;
  if (valSteps > different) notice(words`--val-steps ${valSteps} reads the set again after its ${different} batches`);
  const part = { rank: ranks > 1 ? rank : 0, ranks };
  const loader = resources.keep(openLoader({ shards, batch, sequence, order: 'file', seed, vocabularySize, ...part }));
  return { loader, shards: loader.shards, ranks, batch, sequence, batches: valSteps, different };
}

/** Reads HellaSwag; undefined without --hellaswag-every. @throws Gpt2Error if the questions are damaged, or do not fit the model */
function openHellaswag({ resolved: { options, config, tokenizer }, notice }: Opening): Hellaswag | undefined {
  const { hellaswagEvery, hellaswag: path, sequence } = options;
  if (hellaswagEvery === 0) return undefined;
  const hellaswag = readHellaswag(path, { sequence, vocabularySize: config.vocabularySize, tokenizer });
  const { cut, rows } = hellaswag;
  if (cut > 0) {
    notice(
      words`hellaswag: ${cut} of ${rows.length} rows are over --seq ${sequence}: their contexts lose their beginning`,
    );
  }
  return hellaswag;
}

/** Returns a function that repeats the micro-batches of the first step, for --overfit-batch. */
export function repeatFirstStep(loader: Pick<Loader, 'next' | 'seek'>, accumulation: number): () => Batch {
  loader.seek(startPosition);
  const batches = Array.from({ length: accumulation }, () => {
    const { inputs, targets } = loader.next();
    return { inputs: inputs.slice(), targets: targets.slice() };
  });
  let next = 0;
  return () => batches[next++ % batches.length]!;
}
