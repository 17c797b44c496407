// Checks a folder before a run starts there at step 0: only files of a run may be replaced (writer.ts then opens the folder). Checks a
// folder before --model reads a run's weights there. Chooses the run if --model names none.
import { existsSync, lstatSync, openSync, readdirSync, readFileSync, readlinkSync, readSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { attempt, Gpt2Error, gpt2Error, shortList, words } from '../base/errors.ts';
import { closing, largestDescription, readTextFile } from '../base/files/regular-file.ts';
import { continueWith, shellWord } from '../base/wording.ts';
import { configurationSchema } from '../options/configuration.ts';
import type { Configuration } from '../options/table.ts';
import { checkpointName, isOwnEntry, listCheckpoints } from '../weights/checkpoint/directory.ts';
import { findRuns, newestModel, newestRun } from './find-runs.ts';
import { whileIdle } from './lock.ts';
import { checkpointsFolder, configPath, isOfRun, logPath } from './paths.ts';
import { readRun } from './reader.ts';

/** @throws Gpt2Error naming the files in the folder that a run would replace; `overwrite` allows replacing files of a run */
export function refuseOccupied(run: string, { overwrite }: { overwrite: boolean }): void {
  const { isRun, holds, ours, foreign } = examine(run);
  refuseFolderOfRuns(run, foreign);
  if (foreign.length > 0) {
    const resume = ours.length > 0 && !overwrite ? words`continue its run with --resume, ` : '';
    throw gpt2Error`${run} holds ${shortList(foreign)}, which no run wrote; ${resume}move it away, or name another --out`;
  }
  if (ours.length > 0 && !isRun) {
    throw gpt2Error`${run} holds ${shortList(ours)}, but no log or configuration of a run: continue from there with --resume, move it away, or name another --out`;
  }
  if (holds && !overwrite) {
    throw gpt2Error`${run} already holds a run: continue it with --resume, replace it with --overwrite, or name another --out`;
  }
}

/** Checks a folder without checkpoints that --resume names. @throws Gpt2Error if it holds no run, or its log names checkpoints */
export function refuseLostCheckpoints(run: string): void {
  const { log, isRun, foreign } = examine(run);
  refuseFolderOfRuns(run, foreign);
  if (log !== 'empty' && !isRun) {
    throw gpt2Error`there is no run to resume in ${run}; start one without --resume`;
  }
  const saved = log === 'ours' ? stepsInLog(run, 'checkpoint').map(checkpointName) : [];
  if (saved.length === 0) return;
  const folder = checkpointsFolder(run);
  const others = foreign.map((path) => basename(path));
  const only = others.length > 0 ? ` (found: ${shortList(others)})` : '';
  const anew = others.length > 0 ? '' : words`start over with --overwrite, `;
  throw gpt2Error`${logPath(run)} names checkpoints that are missing from ${folder}: ${shortList(saved.toReversed())}${only}; restore them, mount their disk, ${anew}or name another --out`;
}

/** @throws Gpt2Error if one of the entries `foreign` in the folder is a run */
function refuseFolderOfRuns(run: string, foreign: readonly string[]): void {
  const inside = foreign.map((name) => join(run, name)).find((path) => existsSync(logPath(path)));
  if (inside === undefined) return;
  throw gpt2Error`${run} is a folder of runs: name one with --out, such as ${inside}, or a new one in it`;
}

/** @throws Gpt2Error if a file or folder of a run cannot be read, or one is a file where a folder is expected, or the reverse */
export const refuseUnreadable = (run: string): void => void examine(run);

/** Whether a run that starts in this folder at step 0 would replace a run. @throws as `refuseUnreadable` */
export const holdsRun = (run: string): boolean => examine(run).holds;

/**
 * Examines a folder. `log`: the state of its log, see `contentOf`. `isRun`: whether a run wrote the log or configuration. `holds`:
 * whether the folder has steps of a run, which a new run would replace. `ours`: names of the checkpoints in checkpoints/.
 * `foreign`: paths, relative to the folder, of entries that no run wrote.
 */
function examine(run: string) {
  standsAs('folder', run);
  const log = contentOf(logPath(run), isLog);
  const configuration = contentOf(configPath(run), isConfiguration);
  const isRun = log === 'ours' || configuration === 'ours';
  const folder = checkpointsFolder(run);
  const entries = entriesOf(folder);
  const files = Object.entries({ [logPath(run)]: log, [configPath(run)]: configuration });
  const foreign = files.flatMap(([path, content]) => (content === 'foreign' && !isRun ? [basename(path)] : []));
  for (const entry of entries)
    if (!isOwnEntry(entry) && !isOfSystem(entry)) foreign.push(join(basename(folder), entry));
  const ours = entries.filter(isOwnEntry);
  if (!isRun && log === 'none' && ours.length === 0 && foreign.length === 0) {
    foreign.push(...entriesOf(run).filter((entry) => !isOfRun(entry) && !isOfSystem(entry)));
  }
  const hasSteps = ours.length > 0 || (log === 'ours' && stepsInLog(run, 'train').length > 0);
  const holds = hasSteps || (isRun && log === 'foreign');
  return { log, isRun, holds, ours, foreign };
}

const entriesOf = (folder: string): string[] =>
  standsAs('folder', folder) ? (lookAt(folder, () => readdirSync(folder)) ?? []).sort() : [];

/** Whether a file system or a desktop creates this entry; a run does not touch the entry. */
const isOfSystem = (entry: string): boolean => entry === 'lost+found' || entry.startsWith('.');

/** The state of a log or configuration: 'none' (missing), 'empty', 'ours' (written by a run) or 'foreign'. */
function contentOf(path: string, isOwn: (path: string) => boolean) {
  if (!standsAs('file', path)) return 'none';
  if (lookAt(path, () => statSync(path).size) === 0) return 'empty';
  return lookAt(path, () => isOwn(path)) ? 'ours' : 'foreign';
}

/** Whether a file begins with the characters with which each line of a run's log begins. */
function isLog(path: string): boolean {
  const beginning = '{"event":';
  const read = Buffer.alloc(beginning.length);
  closing(openSync(path, 'r'), (file) => readSync(file, read));
  return read.toString() === beginning;
}

/**
 * Whether a file is a JSON object with at least one of our options, none of a wrong type: a config.json, or a file for --config.
 */
function isConfiguration(path: string): boolean {
  try {
    const value: unknown = JSON.parse(readTextFile(path, largestDescription));
    const known = configurationSchema.partial().parse(value);
    return Object.keys(configurationSchema.shape).some((name) => Object.hasOwn(known, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== undefined) throw error;
    return false;
  }
}

/** The steps of a log's events of this kind. Searches the text without parsing lines, because a log may have 100,000s of lines. */
function stepsInLog(run: string, kind: 'checkpoint' | 'train'): number[] {
  const path = logPath(run);
  const lines = lookAt(path, () => readFileSync(path, 'utf8'))!.split('\n');
  const beginning = new RegExp(`^\\{"event":"${kind}","step":(\\d+),`);
  return [...new Set(lines.flatMap((line) => beginning.exec(line)?.[1] ?? []).map(Number))];
}

/** Whether a file or folder is at `path`, perhaps behind a link. @throws Gpt2Error for another `kind`, or a dangling link */
function standsAs(kind: 'file' | 'folder', path: string): boolean {
  const isLink = lookAt(path, () => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink());
  if (isLink === undefined) return false;
  const stats = lookAt(path, () => statSync(path), isLink);
  // `stats` is also missing if a parent of `path` is a file. Creating the run folder reports that error later.
  if (!stats) return false;
  if (kind === 'file' ? stats.isFile() : stats.isDirectory()) return true;
  throw gpt2Error`${path} is not a ${kind}; move it away or name another --out`;
}

/** Returns the result of `look`; undefined if a parent of `path` is not a folder. @throws Gpt2Error saying why `path` cannot be read */
function lookAt<R>(path: string, look: () => R, isLink = false): R | undefined {
  try {
    return look();
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === 'ENOTDIR' && !isLink) return undefined;
    const why = isLink ? `is a dangling link to ${readlinkSync(path)} (${code})` : `cannot be read: ${message}`;
    const remedy = isLink ? 'mount the disk, correct the link' : 'make it readable';
    throw new Gpt2Error(words`${path} ${why}; ${remedy}, or name another --out`, { cause });
  }
}

/** The model that --model names; if --model is not set, the run in runs/ that saved last. @throws as `refuseUnsaved` */
export function modelOrNewest(named: string | undefined): string {
  const model = named ?? attempt(newestModel);
  const run = model instanceof Gpt2Error ? attempt(newestRun) : model;
  if (!(run instanceof Gpt2Error)) refuseUnsaved(run);
  if (model instanceof Gpt2Error) throw model;
  return model;
}

/** @throws Gpt2Error for a run without a checkpoint, and for a folder of runs; the message names the folder's best run */
export function refuseUnsaved(path: string): void {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  if (existsSync(logPath(path))) {
    const run = attempt(() => readRun(path));
    if (run instanceof Gpt2Error || listCheckpoints(checkpointsFolder(path)).length > 0) return;
    // The run did save, so its checkpoints were removed later: reading the model reports this.
    if (run.events.some(({ event }) => event === 'checkpoint')) return;
    throw unsaved(path, run.configuration);
  }
  const runs = findRuns(path);
  if (runs.length === 0) return;
  const best = bestOf(runs);
  throw gpt2Error`${path} is a folder of runs: name one of them, such as ${shellWord(best?.run ?? runs[0]!)}${best ? `, which has the lowest validation loss (${best.loss.toFixed(4)})` : ''}`;
}

function unsaved(run: string, { saveEvery }: Configuration): Gpt2Error {
  if (whileIdle(run, () => {})) {
    return gpt2Error`${run} has no checkpoint: the run ended before it saved one; ${continueWith(run)}, or name another`;
  }
  const every = typeof saveEvery === 'number' ? `every ${saveEvery} steps` : `every ${saveEvery}`;
  const when = saveEvery === 0 ? 'at its end' : `${every} and at its end`;
  return gpt2Error`${run} has no checkpoint yet: the run saves ${when} (--save-every); wait, stop it with Ctrl-C, which saves too, or name another`;
}

/** The run whose last validation loss is lowest; undefined if no run has a validation loss. */
function bestOf(runs: readonly string[]): { run: string; loss: number } | undefined {
  const losses = runs.flatMap((run) => {
    const record = attempt(() => readRun(run));
    const loss = record instanceof Gpt2Error ? undefined : record.series.val.at(-1)?.[1];
    return loss === undefined || Number.isNaN(loss) ? [] : [{ run, loss }];
  });
  return losses.sort((a, b) => a.loss - b.loss)[0];
}
