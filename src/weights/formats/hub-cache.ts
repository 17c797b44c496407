// The cache of models from the Hugging Face hub: gpt2.ts/models in the user's cache folder. A repository's folder has one folder
// per commit, and for each revision that was used a file with the commit that the revision named.
import { closeSync, existsSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { explained, InterruptedError } from '../../base/errors.ts';
import { cacheFolder, onlyUser } from '../../base/files/cache-folder.ts';
import { makeFolder } from '../../base/files/make-folder.ts';
import type { FetchOptions } from '../../data/datasets/download.ts';
import { lockFile } from '../../native/file-lock.ts';
import { weightsFile } from '../files/names.ts';

export interface HubName {
  /** OWNER/NAME, such as "openai-community/gpt2". */
  readonly repository: string;
  /** A branch, a tag or a commit; undefined: the branch main. */
  readonly revision: string | undefined;
}

const repositoryFolder = (repository: string): string => join(cacheFolder('models'), repository);

export const modelFolder = (repository: string, commit: string): string => join(repositoryFolder(repository), commit);

/** Whether a model's folder is complete: the weights are downloaded last. */
export const isWhole = (folder: string): boolean => existsSync(join(folder, weightsFile));

const commitFile = ({ repository, revision = 'main' }: HubName): string =>
  join(repositoryFolder(repository), `${encodeURIComponent(revision)}.commit`);

/** The commit that a revision named when it was last used; undefined if the cache lacks the model. */
export function knownCommit(name: HubName): string | undefined {
  const path = commitFile(name);
  const commit = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return commit !== '' && isWhole(modelFolder(name.repository, commit)) ? commit : undefined;
}

export function rememberCommit(name: HubName, commit: string): void {
  try {
    if (knownCommit(name) !== commit) writeFileSync(commitFile(name), commit);
  } catch {
    // Ignored: the model can be used even if the cache cannot be written.
  }
}

/** Locks a model's folder, and runs `make` to complete it unless another process has done so meanwhile. @throws as `make` */
export async function alone(
  folder: string,
  { notice, signal }: FetchOptions,
  make: () => Promise<void>,
): Promise<void> {
  const path = join(folder, '.lock');
  const refusal = `the cache folder ${folder} cannot be written`;
  const file = explained(refusal, 'name another cache in XDG_CACHE_HOME', () => {
    makeFolder(folder, onlyUser);
    return openSync(path, 'a');
  });
  try {
    for (let tries = 0; !lockFile(file); tries++) {
      if (tries === 0) notice?.(`waiting for another process that downloads to ${folder}`);
      await wait(100, undefined, { signal }).catch((cause) => {
        throw new InterruptedError(`stopped before the download to ${folder}`, { cause });
      });
    }
    if (isWhole(folder)) return;
    await make();
    // Removes the lock file: processes that still wait for the lock find the folder complete.
    rmSync(path, { force: true });
  } finally {
    closeSync(file);
  }
}
