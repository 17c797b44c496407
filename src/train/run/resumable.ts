// Checks that a run can resume with the values of a checkpoint's manifest. Values that would fail later count as damage, and
// the run resumes from an older checkpoint.
import { orderOf } from '../../batches/order.ts';
import type { FoundCheckpoint } from '../../checkpoint/directory.ts';
import { manifestFile } from '../../checkpoint/manifest.ts';
import { attempt, Gpt2Error } from '../../errors.ts';
import { readOptions } from '../../options/read.ts';
import type { TrainOptions } from '../../options/table.ts';

/** The options that a checkpoint's run had. @throws UsageError */
export const optionsBefore = ({ path, manifest }: FoundCheckpoint): TrainOptions =>
  readOptions(manifest.configuration, `${path}/${manifestFile}`);

/** @throws Gpt2Error naming the value that is invalid, or that contradicts another */
export function checkResumable(found: FoundCheckpoint): void {
  const { path, manifest } = found;
  const refusal = (what: string, cause?: unknown) =>
    new Gpt2Error(`${path}/${manifestFile} cannot be used: ${what}`, { cause });
  const { model, configuration, position, shards } = manifest;
  for (const [name, size] of Object.entries(model)) {
    const asked = configuration[name];
    if (asked !== undefined && asked !== size)
      throw refusal(`${name} is ${size} in its model but ${asked} in its configuration`);
  }
  const before = attempt(() => optionsBefore(found));
  if (before instanceof Gpt2Error) throw refusal(before.message, before);
  // src/options/check.ts checks other rules about several options later: options given again may change them.
  const { batch, sequence, order, seed, totalBatch, ranks = 1 } = before;
  if (typeof batch !== 'number' || sequence === undefined || order === undefined || seed === undefined) {
    throw refusal('its configuration lacks batch, sequence, order or seed');
  }
  if (totalBatch !== undefined && totalBatch % (batch * sequence * ranks) !== 0) {
    throw refusal(
      `totalBatch ${totalBatch} is not a multiple of batch ${batch} x sequence ${sequence} x ranks ${ranks}`,
    );
  }
  const shardTokens = shards.map(({ tokens }) => tokens);
  let holds: boolean;
  try {
    holds = orderOf(order, { shardTokens, batch, sequence, rank: 0, ranks, seed }).holds(position);
  } catch (error) {
    // A permutation of more samples than fit in memory.
    if (!(error instanceof RangeError)) throw error;
    holds = false;
  }
  if (!holds) throw refusal(`the position ${JSON.stringify(position)} does not exist in its shards`);
}
