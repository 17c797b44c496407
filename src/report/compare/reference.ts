// Reads references, and finds the reference of a run by its configuration. A reference is a recorded run of another program such as
// llm.c, with limits inside which our runs count as equal: a JSON file in data/reference that scripts/make-references.ts makes.
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as z from 'zod';
import { gpt2Error, words } from '../../base/errors.ts';
import { readTextFile } from '../../base/files/regular-file.ts';
import { parseJson } from '../../base/files/strict-text.ts';
import { referenceFolder } from '../../base/package-root.ts';
import { hasSameLayers } from '../../model/config.ts';
import { mismatches } from '../../options/configuration.ts';
import type { Configuration } from '../../options/table.ts';
import { seriesNames } from '../../runs/curves.ts';

const limitSchema = z.strictObject({
  series: z.enum(seriesNames),
  /** 'step' (default): the limit of |difference| at each step; 'mean': the limit of the mean |difference| over the steps. */
  kind: z.enum(['step', 'mean']).optional(),
  /** First and last step to which the limit applies. */
  from: z.int(),
  to: z.int(),
  /** Largest allowed |difference|. */
  within: z.number().nonnegative(),
  /** At steps where the reference's value exceeds `above`, the limit is this `within` times the value. */
  relativeAbove: z.strictObject({ above: z.number(), within: z.number().nonnegative() }).optional(),
});
/** The allowed difference of a run from a reference, for one series over a range of steps. */
export type Limit = z.infer<typeof limitSchema>;

const points = z.array(z.tuple([z.int(), z.number()]));
const text = z.string();
const referenceSchema = z.object({
  name: text,
  source: z.object({ program: text, version: text, hardware: text, precision: text, command: text }),
  /** The fields of config.json that a run must share with the reference: see `mismatches`. */
  configuration: z.record(text, z.union([text, z.number(), z.boolean()])),
  series: z.object({ train: points, val: points, norm: points, lr: points }),
  limits: z.array(limitSchema),
});
/** A recorded run of another program: its source, configuration and series, and the limits for our runs. */
export type Reference = z.infer<typeof referenceSchema>;

/** Names of the references in this package, sorted. */
export const referenceNames = (): string[] =>
  readdirSync(referenceFolder)
    .filter((name) => name.endsWith('.json'))
    .map((name) => basename(name, '.json'))
    .sort();

/**
 * Reads a reference by name or, if no reference has the name, by path.
 * @throws Gpt2Error if neither exists, or if the file is not a reference
 * @example const { series, limits } = readReference('llmc-d6-fp32-b4-t64');
 */
export function readReference(nameOrPath: string): Reference {
  const named = join(referenceFolder, `${nameOrPath}.json`);
  const path = existsSync(named) ? named : nameOrPath;
  if (!existsSync(path)) {
    throw gpt2Error`there is no reference ${nameOrPath}: name a file, or one of ${referenceNames().join(', ')}`;
  }
  try {
    return referenceSchema.parse(parseJson(readTextFile(path)));
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause) : cause;
    throw gpt2Error`${path} is not a reference curve: ${reason}; name a file in the format of data/reference`;
  }
}

/** " (train --preset NAME)" for a reference of this package, because a preset has the same name; '' for others. */
export const presetOf = ({ name }: { readonly name: string }): string =>
  referenceNames().includes(name) ? words` (train --preset ${name})` : '';

const references = (): Reference[] => referenceNames().map(readReference);

export const matchingReference = (configuration: Configuration): Reference | undefined =>
  references().find((reference) => mismatches(configuration, reference).length === 0);

/** The reference with the run's data and model that differs from the run in the fewest fields; undefined if no reference has both. */
export const nearestReference = (configuration: Configuration): Reference | undefined =>
  references()
    .filter((reference) => hasSameLayers(configuration, reference.configuration))
    .map((reference) => ({ reference, fields: mismatches(configuration, reference).map(({ field }) => field) }))
    .filter(({ fields }) => !fields.includes('data') && !fields.includes('model'))
    .sort((a, b) => a.fields.length - b.fields.length)[0]?.reference;
