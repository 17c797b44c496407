// Defines and reads a checkpoint's manifest.json: the values that a run needs to resume, the size and hash of every other file,
// and a checksum of the manifest. The manifest is written last, so a folder with a manifest is complete. directory.ts checks the
// other files.
import { join } from 'node:path';
import * as z from 'zod';
import { Gpt2Error, UsageError } from '../../base/errors.ts';
import { checkedJson, readCheckedJson } from '../../base/files/checked-json.ts';
import { largestDescription } from '../../base/files/regular-file.ts';
import { type Architecture, parts } from '../../model/architecture.ts';
import { tokenizerFile } from '../../tokenizer/tokenizer-file.ts';
import { manifestFile, optimizerFile, weightsFile } from '../files/names.ts';

/** The version of new manifests, which have a checksum; version 1 has none. */
export const checkpointVersion = 2;

export const count = z.int().nonnegative();
export const size = z.int().positive();
/** The name of a file in the same folder: a manifest must name nothing outside. */
const fileName = z.string().regex(/^[\w-][\w.-]*$/);
export const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

function schemaOf(values: (typeof parts)[keyof Architecture]): z.ZodType {
  if (values === 'switch') return z.boolean();
  if ('integer' in values) return z.int().min(values.integer[0]);
  return 'number' in values ? z.number().min(values.number[0]) : z.enum(values);
}

const partsSchema = z.object(
  Object.fromEntries(Object.entries(parts).map(([part, values]) => [part, schemaOf(values).optional()])),
) as unknown as z.ZodObject<{ [P in keyof Architecture]: z.ZodOptional<z.ZodType<Architecture[P]>> }>;

/** Unknown fields are errors: a part (such as the norm) that this program does not know would change the model's results. */
export const modelSchema = z.strictObject({
  layers: size,
  channels: size,
  heads: size,
  context: size,
  vocabularySize: size,
  endOfText: count.optional(),
  ...partsSchema.shape,
});
export const positionSchema = z.object({
  epoch: count,
  shard: count,
  sample: count,
  ofProgram: z.array(z.unknown()).readonly().optional(),
});
/** Names, sizes and hashes of files: those in `wanted`, and possibly a tokenizer. */
export const filesSchema = (...wanted: readonly string[]) =>
  z
    .array(z.object({ name: fileName, bytes: count, sha256 }))
    .refine((files) => wanted.every((each) => files.some(({ name }) => name === each)), {
      error: `it lists no ${wanted.join(' or no ')}`,
    })
    .refine((files) => files.every(({ name }) => [...wanted, tokenizerFile].includes(name)), {
      error: 'it lists a file of a later version; update gpt2.ts',
    });

const manifestSchema = z.object({
  format: z.literal('gpt2.ts checkpoint'),
  version: z.int(),
  /** Name and version of the program that wrote the checkpoint. */
  program: z.string(),
  /** Number of updates done. */
  step: count,
  /** The run's options, as in its config.json. */
  configuration: z.record(z.string(), z.unknown()),
  model: modelSchema,
  /** Position at which the loader continues. */
  position: positionSchema,
  /** Length of the run log, in bytes, when the checkpoint was written. */
  logBytes: count,
  /** Code path of the library, such as avx2 or sm90: only the same code path gives the same bits. */
  codePath: z.string(),
  /** The training shards, to detect changed data. Checkpoints of older versions lack the hashes. */
  shards: z.array(z.object({ name: z.string(), tokens: count.max(2 ** 31 - 1), sha256: sha256.optional() })),
  files: filesSchema(weightsFile, optimizerFile),
  /** True if --save-every is a time interval, and its end caused this save. */
  timed: z.boolean().optional(),
  /** Time of writing, ISO 8601. */
  time: z.string(),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** Refuses what `readManifest` would refuse, before the files of the manifest are written. @throws UsageError naming the value */
export function checkManifest(manifest: Omit<Manifest, 'files'>): void {
  const text = checkedJson(manifest);
  const checked = manifestSchema.omit({ files: true }).safeParse(JSON.parse(text));
  if (!checked.success) throw new UsageError(`the manifest could not be read back: ${z.prettifyError(checked.error)}`);
  // 1024 bytes are left for the list of files, which takes less.
  const [bytes, most] = [Buffer.byteLength(text), largestDescription - 1024];
  if (bytes > most) throw new UsageError(`the manifest has ${bytes} bytes, over ${most}: shorten its configuration`);
}

/** Reads the manifest of a checkpoint folder. @throws Gpt2Error if it is missing, damaged, or of another version */
export const readManifest = (checkpoint: string): Manifest =>
  readDescription(join(checkpoint, manifestFile), 'gpt2.ts checkpoint', checkpointVersion, manifestSchema);

/**
 * Reads the JSON file that describes a checkpoint or a capture. Compares its checksum, which `checkedJson` adds and version 1 lacks.
 * @param version the newest version that can be read
 * @throws Gpt2Error if the file is missing, damaged, or of another format or version
 */
export function readDescription<S extends z.ZodType>(
  path: string,
  format: string,
  version: number,
  schema: S,
): z.infer<S> {
  try {
    const { value, isChecked, check } = readCheckedJson(path);
    // Format and version are checked first, because the other fields depend on them.
    const found = Object(value) as { readonly format?: unknown; readonly version?: unknown };
    if (found.format !== format) throw new Error(`it does not describe a ${format}`);
    if (found.version !== 1 && found.version !== version) {
      throw new Error(
        `its version is ${JSON.stringify(found.version)}, this program reads 1 and ${version}; update gpt2.ts`,
      );
    }
    check();
    if (!isChecked && found.version !== 1) throw new Error(`it has no sha256, which version ${version} requires`);
    return schema.parse(value);
  } catch (cause) {
    throw new Gpt2Error(`${path} cannot be used: ${reasonOf(cause)}`, { cause });
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof z.ZodError) return z.prettifyError(error);
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'it is missing';
  return (error as Error).message;
}
