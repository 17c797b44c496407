// Finds the runs in a folder: directly in the folder, and one level deeper, as in the folder of a sweep.
import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { gpt2Error, onCommandLine, words } from '../base/errors.ts';
import { listCheckpoints } from '../weights/checkpoint/directory.ts';
import { checkpointsFolder, logPath } from './paths.ts';

const isLogged = (run: string): boolean => existsSync(logPath(run));

/**
 * Paths of the runs in a folder, or only the folder's path if it is a run; empty if the folder does not exist.
 * @param isRun tells which folders count as runs; default: folders with a log
 * @throws Gpt2Error if the folder cannot be listed
 */
export function findRuns(folder: string, isRun: (path: string) => boolean = isLogged): string[] {
  if (isRun(folder)) return [folder];
  const found = foldersIn(folder).flatMap((path) => (isRun(path) ? path : foldersIn(path).filter(isRun)));
  return found.sort();
}

/** The run in runs/ that saved a checkpoint last. @throws Gpt2Error if no run has a checkpoint */
export function newestModel(): string {
  const isSaved = (run: string) => listCheckpoints(checkpointsFolder(run)).length > 0;
  return newest('trained model', words`name one${onCommandLine(' with --model')}`, checkpointsFolder, isSaved);
}

/** The run in runs/ whose log was written last. @throws Gpt2Error if there is none */
export const newestRun = (): string => newest('run', 'name its folder', logPath, isLogged);

function newest(what: string, otherwise: string, written: (run: string) => string, isRun: (path: string) => boolean) {
  const runs = findRuns('runs', isRun).map((run) => ({ run, time: statSync(written(run)).mtimeMs }));
  const [first] = runs.sort((a, b) => b.time - a.time);
  if (first) return first.run;
  throw gpt2Error`runs/ has no ${what}: run \`npm run train -- --steps 100\`, or ${otherwise}`;
}

function foldersIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder).map((name) => join(folder, name));
    return entries.filter((path) => statSync(path, { throwIfNoEntry: false })?.isDirectory());
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw gpt2Error`${folder} cannot be listed: ${cause}; make it readable`;
  }
}
