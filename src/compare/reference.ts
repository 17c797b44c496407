// Reference curves: recorded runs of other programs, with the limits inside which a run of ours counts as the same.
// They lie in data/reference of this package, one JSON file each, made by scripts/make-references.ts.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { Gpt2Error } from '../errors.ts';
import { packageRoot } from '../package-root.ts';
import type { Configuration } from '../runs/schema.ts';

export const seriesNames = ['train', 'val', 'norm', 'lr'] as const;
export type SeriesName = (typeof seriesNames)[number];

const limitSchema = z.object({
  series: z.enum(seriesNames),
  /** First and last step it speaks of. */
  from: z.int(),
  to: z.int(),
  /** Largest difference of a step, or with `mean` of the mean over these steps. */
  within: z.number(),
  mean: z.boolean().optional(),
  /** For values above `above` the limit is this share of the value. */
  relative: z.object({ above: z.number(), within: z.number() }).optional(),
});
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
  configuration: z.record(z.string(), z.union([z.string(), z.number()])),
  series: z.object({ train: points, val: points, norm: points, lr: points }),
  limits: z.array(limitSchema),
});
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

/** Reads a reference by name or by path. @throws Gpt2Error if there is none, or the file is none */
export function readReference(nameOrPath: string): Reference {
  const path = existsSync(nameOrPath) ? nameOrPath : join(folder, `${nameOrPath}.json`);
  if (!existsSync(path)) {
    throw new Gpt2Error(`there is no reference ${nameOrPath}: name a file, or one of ${referenceNames().join(', ')}`);
  }
  try {
    return referenceSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    const reason =
      cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll('\n', ' ') : (cause as Error).message;
    throw new Gpt2Error(`${path} is not a reference curve: ${reason}`, { cause });
  }
}

/** One field in which a run is not configured as its reference. */
export interface Mismatch {
  readonly field: string;
  readonly run: unknown;
  readonly reference: unknown;
}

/** Where a run's configuration differs from what the reference says of its own. */
export function mismatches(configuration: Configuration, reference: Reference): Mismatch[] {
  const wanted = reference.configuration;
  const run: Record<string, unknown> = { ...configuration, data: basename(configuration.data) };
  const isFlat =
    wanted.schedule === 'constant' || (wanted.schedule !== 'wsd' && wanted.finalLearningRateFraction === 1);
  return (
    Object.keys(wanted)
      // Without decay the number of steps does not enter the learning rate.
      .filter((field) => !(isFlat && (field === 'steps' || field === 'schedule')))
      .filter((field) => run[field] !== wanted[field])
      .map((field) => ({ field, run: run[field], reference: wanted[field] }))
  );
}

/** The reference that a run can be laid over as it is, or undefined. */
export const matchingReference = (configuration: Configuration): Reference | undefined =>
  referenceNames()
    .map(readReference)
    .find((reference) => mismatches(configuration, reference).length === 0);
