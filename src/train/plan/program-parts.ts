// Program parts: schedule, optimizer, batches and validation, which a calling program may pass as functions or objects.
import { inspect, isDeepStrictEqual } from 'node:util';
import { checkValue } from '../../base/checks/given.ts';
import { gpt2Error, isClass, orElse, usageError } from '../../base/errors.ts';
import type { Batch, Loader } from '../../data/batches/loader.ts';
import { type Position, startPosition } from '../../data/batches/order.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { type ProgramPart, programParts } from '../../options/row.ts';
import { optionNames, optionRows, type TrainOptions } from '../../options/table.ts';

/** A program's source of micro-batches, with int32 inputs and targets of shape [batch, sequence]. */
export interface Batches {
  next(): Batch;
  /** The position of the next batch, as plain JSON. A run can be resumed only if its batches have both `position` and `seek`. */
  position?(): unknown;
  /** Moves to a position, from which `next` returns the same batches again. */
  seek?(position: never): void;
}

/** A source of batches, or a function that returns the source of one rank. A run of several ranks needs a function. */
export type BatchesOfRank = Batches | ((place: { readonly rank: number; readonly ranks: number }) => Batches);

export interface ProgramParts {
  /** Returns the learning rate of a step; steps count from 0. */
  readonly schedule?: ((step: number) => number) | undefined;
  readonly optimizer?: OptimizerChoice | undefined;
  /** Training batches instead of the shards in `data`, which still determines the vocabulary. Requires the option `steps`. */
  readonly batches?: BatchesOfRank | undefined;
  /** Replaces the validation shards. Each validation takes `valSteps` batches (default 20): the first if `seek` exists, else the next. */
  readonly validation?: BatchesOfRank | undefined;
}

/** The options of `train`: `schedule`, `optimizer`, `batches` and `validation` may also be functions or objects (`ProgramParts`). */
export type ProgramOptions = Omit<TrainOptions, ProgramPart> & {
  readonly [Part in ProgramPart]?: ProgramParts[Part] | (Part extends keyof TrainOptions ? TrainOptions[Part] : never);
};

/** Separates `ProgramParts` from plain options. @throws UsageError for a wrong type, or an option that a part leaves without effect */
export function splitParts(options: ProgramOptions): { options: TrainOptions; parts: ProgramParts } {
  checkValue('options', 'options', options);
  for (const name of ['batches', 'validation'] as const) {
    if (options[name] !== undefined) checkValue(name, 'object or function', options[name]);
  }
  const given = programParts.filter((name) => Object(options[name]) === options[name]);
  const parts: ProgramParts = Object.fromEntries(given.map((name) => [name, options[name]]));
  const others: TrainOptions = Object.fromEntries(
    Object.entries(options).filter(([name]) => !given.includes(name as ProgramPart)),
  );
  if (parts.schedule) checkValue('schedule', 'function', parts.schedule);
  if (parts.batches && options.overfitBatch) throw usageError`overfitBatch repeats batches of data; leave out batches`;
  const { optimizer, recipe, config, embeddingLearningRate: embedding, headLearningRate: head } = others;
  // With a program's schedule, learningRate has an effect only through other rates, which are applied as multiples of learningRate.
  const hasMultiples = optimizer === 'muon' || [recipe, config, embedding, head].some((each) => each !== undefined);
  for (const name of optionNames) {
    const { without } = optionRows[name];
    if (!without || others[name] === undefined || !parts[without]) continue;
    if (name === 'learningRate' && hasMultiples) continue;
    throw usageError`${name} has no effect with the program's ${without}; leave out ${name}`;
  }
  if (parts.validation && options.valEvery === 0 && !options.resume)
    throw usageError`validation has no effect with valEvery 0; leave it out`;
  return { options: others, parts };
}

/** A loader, or a program's batches with the same interface. `canSeek`: whether batches can be read again; default true. */
export type BatchSource = Omit<Loader, 'close' | typeof Symbol.dispose> & { readonly canSeek?: boolean };

/** Wraps a program's batches for one rank. @throws UsageError if they have no next(), or only one of position() and seek() */
export function sourceOf(
  name: 'batches' | 'validation',
  given: BatchesOfRank,
  place: { readonly rank: number; readonly ranks: number },
): BatchSource {
  if (typeof given !== 'function' && place.ranks > 1) {
    throw usageError`${name} of ${place.ranks} ranks must be a function of { rank, ranks }: each rank reads separate batches`;
  }
  const source = typeof given === 'function' && !isClass(given) ? given(place) : (given as Batches);
  if (typeof source?.next !== 'function') {
    throw usageError`${name} must be an object with next(), or a function of { rank, ranks } that returns one`;
  }
  const canSeek = typeof source.seek === 'function';
  if (canSeek !== (typeof source.position === 'function')) {
    throw usageError`${name} has only one of position() and seek(); a run that resumes needs both`;
  }
  const positionNow = (): unknown => {
    if (!canSeek) return null;
    const position = source.position!();
    // Not every position is plain JSON: JSON.stringify throws for a bigint or a circular object, and drops a function.
    const copy: unknown = JSON.parse(orElse(undefined, () => JSON.stringify(position)) ?? 'null');
    if (isDeepStrictEqual(copy, position)) return copy;
    throw usageError`position() of ${name} must return plain JSON, not ${inspect(position)}`;
  };
  const seek = (position: unknown) => {
    if (!canSeek) throw gpt2Error`${name} of the program: no seek(position), so its batches cannot be read again`;
    source.seek!(position as never);
  };
  const first = positionNow();
  return {
    tokens: Number.POSITIVE_INFINITY,
    shards: [],
    canSeek,
    get position(): Position {
      return { ...startPosition, ofProgram: [positionNow()] };
    },
    next: () => {
      const batch = source.next();
      if (batch?.inputs !== undefined) return batch;
      // A Promise gets a fixed text, because `inspect` does not always show the same fields of a Promise.
      const found = batch instanceof Promise ? 'a Promise (it is not awaited)' : inspect(batch, { depth: 0 });
      throw usageError`next() of ${name} must return { inputs, targets }, not ${found}`;
    },
    seek: ({ ofProgram: [position] = [first] }) => seek(position),
    seekAsRoot: ({ ofProgram = [] }) => {
      if (ofProgram.length === place.ranks) return seek(ofProgram[place.rank]);
      throw gpt2Error`the checkpoint has positions of ${ofProgram.length} ranks, not of ${place.ranks}: resume it with as many ranks`;
    },
  };
}
