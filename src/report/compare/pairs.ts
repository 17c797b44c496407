// Chooses the baselines of runs: the references or runs that the user names; else the reference whose configuration all runs have; else
// the first run. compare.ts then compares each run with its baselines.
import { existsSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { gpt2Error } from '../../base/errors.ts';
import { describeMismatches, mismatches } from '../../options/configuration.ts';
import { logPath } from '../../runs/paths.ts';
import { type RunRecord, readRun } from '../../runs/reader.ts';
import type { Baseline } from './compare.ts';
import { matchingReference, presetOf, type Reference, readReference } from './reference.ts';

export interface NamedRun extends RunRecord {
  readonly name: string;
  readonly folder: string;
}

export interface Pair {
  readonly run: NamedRun;
  readonly baseline: Reference | NamedRun;
}

/**
 * Reads runs and pairs each with its baselines. `names` lists references (by name or file) and run folders. A run must have a named
 * reference's configuration, but not a named run's. Without `names` the baseline is the reference with the configuration of all runs. If
 * there is no such reference, the first run is the baseline, and a single run has no pair.
 * @returns `runs` in the order of `folders`, without runs in `names`; `baselines`: the references and runs that are not in `runs`
 * @throws Gpt2Error if a folder or name cannot be read, or if a run or a named reference has no pair
 */
export function pairRuns(folders: readonly string[], names: readonly string[] = []) {
  const runs = nameRuns(folders);
  if (names.length === 0) return pairByConfiguration(runs);
  const named = names.map((name) => (existsSync(logPath(name)) ? nameRuns([name])[0]! : readReference(name)));
  // Leave out a run that is also named as a baseline.
  const rest = runs.filter(({ folder }) => !named.some((one) => isRun(one) && resolve(one.folder) === resolve(folder)));
  if (rest.length === 0) throw gpt2Error`${folders.join(', ')} cannot be compared with itself; name another run`;
  const pairs = rest.flatMap((run) => named.filter((one) => fits(run, one)).map((one) => ({ run, baseline: one })));
  for (const run of rest) if (!pairs.some((pair) => pair.run === run)) refuse(run, named, rest.length);
  for (const one of named) if (!pairs.some((pair) => pair.baseline === one)) refuse(rest[0]!, [one], rest.length);
  return { runs: rest, baselines: named, pairs };
}

function pairByConfiguration(runs: readonly NamedRun[]) {
  const [first, ...others] = runs;
  const reference = first && matchingReference(first.configuration);
  if (reference && others.every((run) => fits(run, reference))) {
    return { runs, baselines: [reference], pairs: runs.map((run) => ({ run, baseline: reference })) };
  }
  return { runs, baselines: [], pairs: others.map((run) => ({ run, baseline: first! })) };
}

export const isRun = (baseline: Baseline): baseline is NamedRun => 'folder' in baseline;

const fits = ({ configuration }: RunRecord, baseline: Reference | NamedRun): boolean =>
  isRun(baseline) || mismatches(configuration, baseline).length === 0;

function refuse(run: NamedRun, [reference]: readonly (Reference | NamedRun)[], runs: number): never {
  const differences = describeMismatches(mismatches(run.configuration, reference as Reference));
  throw gpt2Error`${runs === 1 ? 'the run' : run.folder} is not configured as ${reference!.name}: ${differences}; train with these${presetOf(reference!)}, or name another --reference`;
}

/** Names each run by the name of its folder, or by the folder's path if two names are equal. */
function nameRuns(folders: readonly string[]): NamedRun[] {
  const short = folders.map((folder) => basename(resolve(folder)));
  return folders.map((folder, index) => {
    const name = short[index]!;
    return { ...readRun(folder), folder, name: short.indexOf(name) === short.lastIndexOf(name) ? name : folder };
  });
}
