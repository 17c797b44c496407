// manifest.json of a checkpoint: written last, so a folder that has it was written to its end. It holds what a run needs
// to go on, and the size and hash of every other file.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { Gpt2Error } from '../errors.ts';

export const manifestFile = 'manifest.json';
export const weightsFile = 'model.safetensors';
export const optimizerFile = 'optimizer.safetensors';
export const checkpointVersion = 1;

const count = z.int().nonnegative();

export const manifestSchema = z.object({
  format: z.literal('gpt2.ts checkpoint'),
  version: z.literal(checkpointVersion),
  /** Name and version of the program that wrote it. */
  program: z.string(),
  /** Updates done. */
  step: count,
  /** The run's options, as in its config.json. */
  configuration: z.record(z.string(), z.unknown()),
  model: z.object({ layers: count, channels: count, heads: count, context: count, vocabularySize: count }),
  /** Where the loader goes on. */
  position: z.object({ epoch: count, shard: count, sample: count }),
  /** Length of the run log when it was written. */
  logBytes: count,
  codePath: z.string(),
  /** The training shards, to tell whether the data is still the same. */
  shards: z.array(z.object({ name: z.string(), tokens: count })),
  files: z.array(z.object({ name: z.string(), bytes: count, sha256: z.string() })),
  time: z.string(),
});

export type Manifest = z.infer<typeof manifestSchema>;

/** @throws Gpt2Error if it is missing, damaged or of another version */
export function readManifest(checkpoint: string): Manifest {
  const path = join(checkpoint, manifestFile);
  try {
    return manifestSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch (cause) {
    const reason = cause instanceof z.ZodError ? z.prettifyError(cause).replaceAll('\n', ' ') : (cause as Error).message;
    throw new Gpt2Error(`${path} cannot be used: ${reason}`, { cause });
  }
}
