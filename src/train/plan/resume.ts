// Finds the newest valid checkpoint of the run that --resume continues, and merges the run's options with new options.
import { existsSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { attempt, Gpt2Error, gpt2Error, shown, words } from '../../base/errors.ts';
import { orderOf } from '../../data/batches/order.ts';
import { otherOf } from '../../options/complete-options.ts';
import { checkSameParts, recordedValue } from '../../options/configuration.ts';
import { readOptions, readOptionsFile, readRunOptions } from '../../options/read-options.ts';
import { resumedOptions, runToResume, withGiven } from '../../options/resumed-options.ts';
import { optionRows, recordedNames, spell, type TrainOptions } from '../../options/table.ts';
import { holdsRun, refuseLostCheckpoints, refuseOccupied, refuseUnreadable } from '../../runs/existing.ts';
import { checkpointsFolder, configPath, logPath } from '../../runs/paths.ts';
import { eventsIfReadable } from '../../runs/reader.ts';
import {
  type FoundCheckpoint,
  newestManifest,
  newestValidCheckpoint,
  verifyCheckpoint,
} from '../../weights/checkpoint/directory.ts';
import { manifestFile } from '../../weights/files/names.ts';

export interface Resumed {
  readonly options: TrainOptions;
  /** The checkpoint from which a resumed run continues. */
  readonly checkpoint: FoundCheckpoint | undefined;
  /** Notices about options whose values differ from the values in the resumed run. */
  readonly changes?: readonly string[];
}

/**
 * Merges `asked` with the options of the run that --resume continues, if any.
 * @param parts names of the `ProgramParts` that a program passes
 * @returns `checkpoint` is undefined if the run starts at step 0: no run is resumed, or the run has no complete checkpoint yet
 * @throws UsageError for contradicting flags; Gpt2Error if there is no run in --out, or an option would break the run
 */
export function mergeRun(asked: TrainOptions, notice: (text: string) => void, parts: readonly string[] = []): Resumed {
  const { out, wanted } = startOrResume(asked);
  if (out === undefined) return { options: wanted, checkpoint: undefined };
  refuseUnreadable(out);
  const { recipe } = wanted;
  if (recipe !== undefined) notice(words`${out} goes on with its own options: --recipe ${recipe} sets none of them`);
  const { checkpoint, damaged } = newestValidCheckpoint(checkpointsFolder(out), (path) => readResumable(out, path));
  if (!checkpoint && damaged.length > 0) {
    throw gpt2Error`no checkpoint of ${out} is valid: ${damaged[0]!.reason}; restore its files, or start over with --overwrite`;
  }
  for (const { reason } of damaged) notice(`skipped a checkpoint: ${reason}`);
  if (checkpoint) {
    checkSameParts(out, checkpoint.manifest.configuration, parts);
    const changes: string[] = [];
    const before = optionsBefore(checkpoint);
    const options = resumedOptions(before, wanted, (text) => changes.push(text));
    for (const text of unusedValues(out, checkpoint.path, { before, wanted, options }, parts)) notice(text);
    return { options, checkpoint, changes };
  }
  refuseLostCheckpoints(out);
  refuseOccupied(out, { overwrite: true });
  notice(`${out} has no complete checkpoint: starting at step 0`);
  const options = { ...withGiven(configuredOptions(out, parts), wanted), resume: false, overwrite: true };
  return { options, checkpoint: undefined };
}

/**
 * Merges options as `mergeRun` does, without verifying the checkpoint: for the launcher of ranks, which call `mergeRun` themselves.
 * @throws as `mergeRun`, except for a damaged checkpoint
 */
export function mergeUnverified(asked: TrainOptions): Resumed {
  const { out, wanted } = startOrResume(asked);
  if (out === undefined) return { options: wanted, checkpoint: undefined };
  const checkpoint = newestManifest(checkpointsFolder(out));
  if (checkpoint) checkSameParts(out, checkpoint.manifest.configuration, []);
  return { options: withGiven(checkpoint ? optionsBefore(checkpoint) : configuredOptions(out), wanted), checkpoint };
}

/**
 * Decides whether to resume: `out` is the folder of the run to resume; undefined for a start at step 0. `--resume auto` resumes if
 * the folder holds a run, and keeps the batch that `--batch auto` chose, so that one command starts and continues a run.
 * @throws as `runToResume` and `holdsRun`
 */
function startOrResume(asked: TrainOptions): { out: string | undefined; wanted: TrainOptions } {
  const out = runToResume(asked);
  if (out === undefined || asked.resume !== 'auto') return { out, wanted: asked };
  const { batch, ...others } = asked;
  if (!holdsRun(out)) return { out: undefined, wanted: { ...asked, resume: false } };
  return { out, wanted: batch === 'auto' ? others : asked };
}

const configuredOptions = (out: string, parts: readonly string[] = []): TrainOptions =>
  existsSync(configPath(out)) ? readRunOptions(configPath(out), parts) : {};

/** Notices about values in config.json that the checkpoint overrules: the file was edited, or a start ended before its first save. */
function unusedValues(
  out: string,
  from: string,
  { before, wanted, options }: Readonly<Record<'before' | 'wanted' | 'options', TrainOptions>>,
  parts: readonly string[],
): string[] {
  const path = configPath(out);
  const configured = attempt(() => (existsSync(path) ? readOptionsFile(path, undefined, parts) : {}));
  if (configured instanceof Gpt2Error) return [`the options are those of ${from}: ${configured.message}`];
  return recordedNames.flatMap((name) => {
    const [value, was] = [configured[name], recordedValue(before, name)];
    const isAsked = [name, otherOf(name)].some((each) => each && wanted[each] !== undefined);
    // True for an option, such as the warmup, that a new schedule or number of steps has reset to its default.
    const isReset = options[name] !== before[name];
    if (value === undefined || isAsked || isReset || isDeepStrictEqual(value, was)) return [];
    const flag = spell(name);
    const advice = optionRows[name].resume === 'never' ? '' : words`; give ${flag} to change it`;
    return words`${flag} ${was ?? 'none'}, as ${from} has it, not ${value} as in ${path}${advice}`;
  });
}

/** The options that a checkpoint's manifest records. @throws UsageError */
const optionsBefore = ({ path, manifest }: FoundCheckpoint): TrainOptions =>
  readOptions(manifest.configuration, `${path}/${manifestFile}`);

/**
 * Verifies a checkpoint, and that a run can resume with the values of its manifest. A manifest value that would fail later counts as
 * damage, and so does a checkpoint of another run: the run then resumes from an older checkpoint.
 * @throws Gpt2Error naming the value that is invalid, or that contradicts another
 */
function readResumable(out: string, path: string): FoundCheckpoint {
  const found = verifyCheckpoint(path);
  const { manifest } = found;
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
  // Other rules between options are checked after the merge with new options (src/options/complete-options.ts).
  const { batch, sequence, order, seed, totalBatch, ranks = 1 } = before;
  if (typeof batch !== 'number' || sequence === undefined || order === undefined || seed === undefined) {
    throw refusal('its configuration lacks batch, sequence, order or seed');
  }
  if (totalBatch !== undefined && totalBatch % (batch * sequence * ranks) !== 0) {
    throw refusal(
      `totalBatch ${totalBatch} is not a multiple of batch ${batch} x sequence ${sequence} x ranks ${ranks}`,
    );
  }
  // Compare with the log's `run` event of the start that wrote the checkpoint. Checkpoints of earlier versions lack some options.
  const start = eventsIfReadable(out, 'run').findLast(
    (event) => event.event === 'run' && (event.resumedFrom ?? -1) < manifest.step,
  );
  for (const [name, logged] of Object.entries(start?.event === 'run' ? start.configuration : {})) {
    const value = configuration[name];
    if (value !== undefined && !isDeepStrictEqual(value, logged))
      throw refusal(`its ${name} is ${shown(value)}, but ${logPath(out)} has ${shown(logged)}: it is of another run`);
  }
  if (position.ofProgram) return found;
  const shardTokens = shards.map(({ tokens }) => tokens);
  let holds: boolean;
  try {
    holds = orderOf(order, { shardTokens, batch, sequence, rank: 0, ranks, seed }).holds(position);
  } catch (error) {
    // `orderOf` throws a RangeError if a permutation of all samples would not fit in memory.
    if (!(error instanceof RangeError)) throw error;
    holds = false;
  }
  if (!holds) throw refusal(`the position ${JSON.stringify(position)} does not exist in its shards`);
  return found;
}
