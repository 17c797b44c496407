// Writes and reads captures: the weights, tokens, sizes and results of one step, from which any machine can compute loss and
// gradients again (train/failure/replay.ts). A capture is a folder like a checkpoint, with capture.json written last.
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import { gpt2Error } from '../../base/errors.ts';
import { checkedJson } from '../../base/files/checked-json.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import { type Batch, batchOfRows } from '../../data/batches/loader.ts';
import { openShard, writeDurably, writeShard } from '../../data/shards/shard.ts';
import type { ParameterArena } from '../../model/arena.ts';
import type { Model } from '../../model/model.ts';
import { dtypes } from '../../native/device.ts';
import { weightsFile } from '../files/names.ts';
import { writeInPlace } from '../files/replace.ts';
import { writeTensors } from '../files/safetensors.ts';
import { checkModelSize, checkpointName, verifyContents } from './directory.ts';
import { count, filesSchema, modelSchema, positionSchema, readDescription, sha256, size } from './manifest.ts';
import { stateInDevice } from './write.ts';

export const captureFile = 'capture.json';
export const tokensFile = 'tokens.bin';
/** The version of new captures, which have a checksum; version 1 has none. */
export const captureVersion = 2;

/** Names of numbers that JSON lacks. The type is written out because the inferred type of "-Infinity" is no valid declaration. */
const notFinite: z.ZodType<'NaN' | 'Infinity' | '-Infinity'> = z.enum(['NaN', 'Infinity', '-Infinity']);
/** A number, or the name of a number that is not finite, because JSON has none. */
const result = z.union([z.number(), notFinite]);

const captureSchema = z.object({
  format: z.literal('gpt2.ts capture'),
  version: z.int(),
  /** Name and version of the program that wrote the capture. */
  program: z.string(),
  step: count,
  /** Position of the step's tokens in the run's data. */
  position: positionSchema,
  model: modelSchema,
  library: z.enum(['cpu', 'cuda']),
  dtype: z.enum(dtypes),
  codePath: z.string(),
  /** The ops that ran a user's kernels instead of the library's, with hashes of the user's kernels; absent if there were none. */
  cards: z.string().optional(),
  batch: size,
  sequence: size,
  accumulation: size,
  /** The windows of attention in this step; absent if they were the model's. */
  windows: z.object({ long: size.optional(), short: size.optional() }).optional(),
  loss: result,
  norm: result,
  /** sha256 over the step's gradients, in the order of the device's memory. */
  gradients: sha256,
  /** The first tensor with a value that is not finite, and the op that wrote it. */
  finding: z
    .object({
      /** Index of the micro-batch in the step, from 0; absent if a weight was not finite before the step began. */
      microBatch: count.optional(),
      /** Index of the transformer layer, from 0; absent for embeddings, the last layernorm and the head. */
      layer: count.optional(),
      /** The op's C name, such as "gpt2_matmul_backward_input"; absent if `microBatch` is absent. */
      op: z.string().optional(),
      /** The op's argument in cuda/gpt2.h and the tensor's name, such as "din (dbranch)". If `op` is absent, a parameter's name. */
      tensor: z.string(),
      value: notFinite,
    })
    .optional(),
  files: filesSchema(weightsFile, tokensFile),
});

export type Capture = z.infer<typeof captureSchema>;

/** A number as a capture stores it: NaN and infinities become texts. */
export const captured = (value: number): Capture['loss'] =>
  Number.isFinite(value) ? value : (String(value) as Capture['loss']);

/**
 * Writes a capture to `folder`/step-NNNNNNNN and returns its path; an earlier capture of the step is replaced.
 * @param batches the step's micro-batches
 * @throws Gpt2Error if it cannot be written
 */
export function writeCapture(
  folder: string,
  { model, gradients }: { model: Model; gradients: ParameterArena },
  batches: readonly Batch[],
  facts: Omit<Capture, 'format' | 'version' | 'model' | 'library' | 'dtype' | 'codePath' | 'gradients' | 'files'>,
): string {
  const { description, dtype } = model.device;
  return writeInPlace({ what: 'capture', folder, name: checkpointName(facts.step) }, makeFolder, (temporary) => {
    const weights = writeTensors(join(temporary, weightsFile), [stateInDevice(model, []).weights]);
    const tokens = rowsOf(batches, facts.sequence);
    const shard = writeShard(join(temporary, tokensFile), tokens);
    const { library, codePath } = description;
    const manifest: Capture = {
      format: 'gpt2.ts capture',
      version: captureVersion,
      ...facts,
      model: model.config,
      ...{ library, dtype, codePath },
      gradients: gradientsHash(gradients),
      files: [
        { name: weightsFile, ...weights },
        { name: tokensFile, bytes: 1024 + tokens.byteLength, sha256: shard.sha256 },
      ],
    };
    writeDurably(join(temporary, captureFile), [Buffer.from(checkedJson(manifest))]);
  });
}

/** The tokens of all rows as uint16, each row with the token that follows it. */
function rowsOf(batches: readonly Batch[], sequence: number): Uint16Array {
  const rows = batches.flatMap(({ inputs, targets }) =>
    Array.from({ length: inputs.length / sequence }, (_, row) => [
      ...inputs.subarray(row * sequence, (row + 1) * sequence),
      targets[(row + 1) * sequence - 1]!,
    ]),
  );
  return Uint16Array.from(rows.flat());
}

/** Reads a capture and checks its files' sizes and hashes. @throws Gpt2Error if the folder is no capture, or a file has changed */
export function readCapture(path: string) {
  const description = join(path, captureFile);
  if (!existsSync(description)) {
    throw gpt2Error`${path} is not a capture: it has no ${captureFile}; name one that train wrote, <RUN>/captures/step-…`;
  }
  const manifest = readDescription(description, 'gpt2.ts capture', captureVersion, captureSchema);
  verifyContents(path, manifest.files);
  checkModelSize(path, manifest);
  return { path, manifest };
}

/** Reads the micro-batches of a capture. @throws Gpt2Error if its number of tokens does not match its sizes */
export function readBatches({ path, manifest }: ReturnType<typeof readCapture>): Batch[] {
  const { batch, sequence, accumulation, model } = manifest;
  using shard = openShard(join(path, tokensFile));
  const rows = batch * accumulation;
  if (shard.tokens !== rows * (sequence + 1)) {
    throw gpt2Error`${shard.path} has ${shard.tokens} tokens, not ${rows} rows of ${sequence} + 1`;
  }
  shard.checkTokens(model.vocabularySize);
  return Array.from({ length: accumulation }, (_, micro) =>
    batchOfRows(batch, sequence, (row) => shard.read((micro * batch + row) * (sequence + 1), sequence + 1)),
  );
}

/** sha256 over gradients in the order of the device's memory. A replay on another code path rounds differently and gets another hash. */
export function gradientsHash({ matrices, vectors }: ParameterArena): string {
  const hash = createHash('sha256');
  const most = 1 << 24;
  for (const tensor of [matrices, vectors]) {
    for (let start = 0; start < tensor.count; start += most) {
      hash.update(new Uint8Array(tensor.readPart(start, Math.min(most, tensor.count - start)).buffer));
    }
  }
  return hash.digest('hex');
}
