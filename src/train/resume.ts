// What `--resume` takes from a checkpoint: every option, except those given again, which are used and named, or refused
// where they would break the run.
import { existsSync } from 'node:fs';
import { type FoundCheckpoint, newestValidCheckpoint } from '../checkpoint/directory.ts';
import { Gpt2Error } from '../errors.ts';
import { customModel, presetConfig } from '../model/config.ts';
import { refuseLostCheckpoints, refuseOccupied, refuseUnreadable } from '../runs/existing.ts';
import { checkpointsFolder, configPath } from '../runs/paths.ts';
import { type OptionName, type OptionRow, optionTable, runOnlyOptions, type TrainOptions } from './option-table.ts';
import { readRunOptions } from './options.ts';
import { checkResumable, optionsBefore } from './resumable.ts';

/** Options that a resumed run cannot change; batch, seq and gpus only where the order does not depend on them. */
const fixed: readonly OptionName[] = ['layers', 'channels', 'heads', 'context', 'order', 'seed', 'overfitBatch'];
const fixedUnlessSequenceOrder: readonly OptionName[] = ['batch', 'sequence', 'ranks'];

export interface Resumed {
  readonly options: TrainOptions;
  /** Absent where the run had no complete checkpoint yet: it starts at step 0. */
  readonly checkpoint: FoundCheckpoint | undefined;
}

/**
 * The options and the checkpoint to go on with.
 * @throws Gpt2Error if there is no run in --out, or a given option would break it
 */
export function resumeOptions(given: TrainOptions, notice: (text: string) => void): Resumed {
  const out = given.out!;
  refuseUnreadable(out);
  const { checkpoint, damaged } = newestValidCheckpoint(checkpointsFolder(out), checkResumable);
  if (!checkpoint && damaged.length > 0) {
    throw new Gpt2Error(
      `no checkpoint of ${out} is whole: ${damaged[0]!.reason}; put its files back, or start again with --overwrite`,
    );
  }
  for (const { reason } of damaged) notice(`skipped a damaged checkpoint: ${reason}`);
  if (!checkpoint) {
    refuseLostCheckpoints(out);
    refuseOccupied(out, { overwrite: true });
    notice(`${out} has no complete checkpoint: starting at step 0`);
    const before = existsSync(configPath(out)) ? readRunOptions(configPath(out)) : {};
    const now = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
    return { options: { ...before, ...now, resume: false, overwrite: true }, checkpoint: undefined };
  }
  const before = optionsBefore(checkpoint);
  const options: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(given) as [OptionName, unknown][]) {
    if (value === undefined) continue;
    options[name] = value;
    if ((runOnlyOptions as readonly OptionName[]).includes(name) || value === was(before, name)) continue;
    const { flag }: OptionRow = optionTable[name];
    const isFixed =
      fixed.includes(name) ||
      (fixedUnlessSequenceOrder.includes(name) && before.order !== 'sequence') ||
      (name === 'model' && !isSameModel(value as string, given, before));
    if (isFixed) {
      const advice = fixedUnlessSequenceOrder.includes(name)
        ? '; only --order sequence can continue with another split'
        : '';
      throw new Gpt2Error(
        `cannot resume ${out} with ${flag} ${value}: it was trained with ${was(before, name)}${advice}`,
      );
    }
    if (name !== 'model') notice(`${flag} ${value} in place of the run's ${was(before, name) ?? 'default'}`);
  }
  return { options: options as TrainOptions, checkpoint };
}

/** Checkpoints of before say nothing of ranks: there was one. */
const was = (before: TrainOptions, name: OptionName) => before[name] ?? (name === 'ranks' ? 1 : undefined);

/** Whether a name, with the sizes given beside it, is the model that was trained. */
function isSameModel(name: string, given: TrainOptions, before: TrainOptions): boolean {
  const preset = presetConfig(name);
  const isNamed = preset !== undefined || name === customModel;
  return (
    isNamed &&
    (['layers', 'channels', 'heads'] as const).every((size) => (given[size] ?? preset?.[size]) === before[size])
  );
}
