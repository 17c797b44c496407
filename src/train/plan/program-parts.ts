// The parts of a run that a program gives as functions and objects in place of options: schedule, optimizer, batches, validation.
import { inspect, isDeepStrictEqual } from 'node:util';
import { checkValue } from '../../base/checks/given.ts';
import { gpt2Error, isClass, orElse, usageError } from '../../base/errors.ts';
import type { Batch, Loader } from '../../data/batches/loader.ts';
import { type Position, startPosition } from '../../data/batches/order.ts';
import type { OptimizerChoice } from '../../optimizer/assign.ts';
import { type ProgramPart, programParts } from '../../options/row.ts';
import { optionNames, optionRows, type TrainOptions } from '../../options/table.ts';

/** Micro-batches of a program, each [batch, sequence]. */
export interface Batches {
  next(): Batch;
  /** The position of the next batch, as plain JSON. A run can only be resumed with `position` and `seek`. */
  position?(): unknown;
  /** Moves to a position, from which `next` returns the same batches again. */
  seek?(position: never): void;
}

/** Batches, or a function that returns a rank's batches; several ranks need a function. */
export type BatchesOfRank = Batches | ((place: { readonly rank: number; readonly ranks: number }) => Batches);

export interface ProgramParts {
  /** The learning rate of a step, counted from 0. */
  readonly schedule?: ((step: number) => number) | undefined;
  readonly optimizer?: OptimizerChoice | undefined;
  /** In place of the training shards of `data`; the model keeps the vocabulary of `data`. Needs `steps`. */
  readonly batches?: BatchesOfRank | undefined;
  /** In place of the validation shards: `valSteps` batches (default 20), from the first position if there is a `seek`. */
  readonly validation?: BatchesOfRank | undefined;
}

/** The options of `train`: a program may give a function for `schedule`, and an object for `optimizer`, `batches`, `validation`. */
export type ProgramOptions = Omit<TrainOptions, ProgramPart> & {
  readonly [Part in ProgramPart]?: ProgramParts[Part] | (Part extends keyof TrainOptions ? TrainOptions[Part] : never);
};

/** Separates a program's parts from its options. @throws UsageError for a part of another type */
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
  // Other rates are multiples of learningRate, also with the program's schedule.
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

/** `canSeek`: whether the batches can be read again; a loader's always can. */
export type BatchSource = Omit<Loader, 'close' | typeof Symbol.dispose> & { readonly canSeek?: boolean };

/** A program's batches as the run reads them. @throws UsageError if they have no next(), or only one of position() and seek() */
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
    // JSON.stringify throws for a bigint and a circle, and returns undefined for a function.
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
      // Node shows a Promise with more or fewer fields, by what else runs in the process.
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
