// Reference curves: recorded runs of other programs, with the limits inside which a run of ours counts as the same.
// They lie in data/reference of this package, one JSON file each, made by scripts/make-references.ts. Here they are read,
// and found by a run's configuration; how far apart two curves are is left to compare.ts.
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { Gpt2Error } from '../errors.ts';
import { readTextFile } from '../files/regular-file.ts';
import { customModel, presetConfig } from '../model/config.ts';
import { packageRoot } from '../package-root.ts';
import type { Configuration } from '../runs/schema.ts';

export const seriesNames = ['train', 'val', 'norm', 'lr'] as const;
export type SeriesName = (typeof seriesNames)[number];

const limitSchema = z.strictObject({
  series: z.enum(seriesNames),
  /** 'step' (the default): every step for itself; 'mean': the mean |difference| over these steps. */
  kind: z.enum(['step', 'mean']).optional(),
  /** First and last step it speaks of. */
  from: z.int(),
  to: z.int(),
  /** Largest |difference| that is inside. */
  within: z.number().nonnegative(),
  /** Where the reference's value is above `above`, the limit is this share of the value instead. */
  relativeAbove: z.strictObject({ above: z.number(), within: z.number().nonnegative() }).optional(),
});
/** How far a run may be from a reference over some of its steps. */
export type Limit = z.infer<typeof limitSchema>;

const points = z.array(z.tuple([z.int(), z.number()]));
const referenceSchema = z.object({
  name: z.string(),
  source: z.object({
    program: z.string(),
    version: z.string(),
    hardware: z.string(),
    precision: z.string(),
    command: z.string(),
  }),
  /** What identifies the run, under the names of a run's own configuration; what is not said is not compared. */
  configuration: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  series: z.object({ train: points, val: points, norm: points, lr: points }),
  limits: z.array(limitSchema),
});
/** A recorded run: where it comes from, how it was configured, what it measured, how near a run of ours has to be. */
export type Reference = z.infer<typeof referenceSchema>;

const folder = join(packageRoot, 'data', 'reference');

/** Names of the references that come with this package. */
export const referenceNames = (): string[] =>
  existsSync(folder)
    ? readdirSync(folder)
        .filter((name) => name.endsWith('.json'))
        .map((name) => basename(name, '.json'))
        .sort()
    : [];

/**
 * Reads a reference by name or, where no reference is called that, by path.
 * @throws Gpt2Error if there is none, or the file is none
 */
export function readReference(nameOrPath: string): Reference {
  const named = join(folder, `${nameOrPath}.json`);
  const path = existsSync(named) ? named : nameOrPath;
  if (!existsSync(path)) {
    throw new Gpt2Error(`there is no reference ${nameOrPath}: name a file, or one of ${referenceNames().join(', ')}`);
  }
  try {
    return referenceSchema.parse(JSON.parse(readTextFile(path)));
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : (cause as Error).message;
    throw new Gpt2Error(`${path} is not a reference curve: ${reason}; name a file in the format of data/reference`, {
      cause,
    });
  }
}

/** One field in which a run is not configured as its reference. */
export interface Mismatch {
  readonly field: string;
  readonly run: unknown;
  readonly reference: unknown;
}

/**
 * Where a run's configuration differs from what the reference says of its own. `valEvery` is not compared: it decides
 * which steps are validated, not what comes out. Where neither learning rate ever falls, nor are the fields it falls by.
 */
export function mismatches(configuration: Configuration, reference: Reference): Mismatch[] {
  const wanted = reference.configuration;
  const run: Record<string, unknown> = { ...configuration, data: basename(configuration.data) };
  // By whatever name, a preset starts from the seed, and its sizes are fields of their own; a folder starts from weights.
  if (configuration.model === customModel || presetConfig(configuration.model)) run.model = wanted.model;
  const uncompared = ['valEvery'];
  if (isFlat(run) && isFlat(wanted)) uncompared.push('steps', 'schedule', 'finalLearningRateFraction');
  return Object.keys(wanted)
    .filter((field) => !uncompared.includes(field) && run[field] !== wanted[field])
    .map((field) => ({ field, run: run[field], reference: wanted[field] }));
}

/** Whether the learning rate stays where the warmup leaves it, so that the number of steps does not enter it. */
const isFlat = ({ schedule, finalLearningRateFraction }: Record<string, unknown>): boolean =>
  schedule === 'constant' || finalLearningRateFraction === 1;

/** The reference that a run can be laid over as it is, or undefined. */
export const matchingReference = (configuration: Configuration): Reference | undefined =>
  referenceNames()
    .map(readReference)
    .find((reference) => mismatches(configuration, reference).length === 0);
