// Checks that a run can resume with the values of a checkpoint's manifest. Values that would fail later count as damage: the
// run then resumes from an older checkpoint.
import { orderOf } from '../batches/order.ts';
import type { FoundCheckpoint } from '../checkpoint/directory.ts';
import { manifestFile } from '../checkpoint/manifest.ts';
import { Gpt2Error } from '../errors.ts';
import type { TrainOptions } from './option-table.ts';
import { checkOptions, readOptions } from './options.ts';

/** The options that a checkpoint's run had. @throws UsageError */
export const optionsBefore = ({ path, manifest }: FoundCheckpoint): TrainOptions =>
  readOptions(manifest.configuration, `${path}/${manifestFile}`);

/** @throws Gpt2Error naming the value that is invalid, or that contradicts another */
export function checkResumable(found: FoundCheckpoint): void {
  const { path, manifest } = found;
  const refuse = (what: string, cause?: unknown): never => {
    throw new Gpt2Error(`${path}/${manifestFile} cannot be used: ${what}`, { cause });
  };
  const { model, configuration, position, shards } = manifest;
  try {
    const { batch, sequence, order, seed, ranks } = checkOptions(optionsBefore(found), 'cpu');
    const shardTokens = shards.map(({ tokens }) => tokens);
    const positions = orderOf(order, { shardTokens, batch, sequence, rank: 0, ranks, seed });
    if (!positions.holds(position)) refuse(`its shards have no position ${JSON.stringify(position)}`);
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    refuse(error.message, error);
  }
  for (const [name, size] of Object.entries(model)) {
    const asked = configuration[name];
    if (asked !== undefined && asked !== size) refuse(`its model has ${name} ${size}, its configuration ${asked}`);
  }
}
