// The folder of encoded parts, until the shards are complete. A killed preparation resumes from these parts. A preparation that
// fails early, before there are parts worth keeping, removes the folder.
import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { makeFolder } from '../../../base/files/make-folder.ts';
import { unfinishedFolder } from '../../shards/dataset-file.ts';
import { writingTo } from '../../standing.ts';

/** A failed preparation keeps its parts if they have at least this many bytes together: smaller ones are quickly made again. */
const worthKeeping = 1 << 20;

/** Creates the work folder <out>/.prepro. @throws Gpt2Error if it cannot be created */
export function workFolder(out: string) {
  const path = join(out, unfinishedFolder);
  const existed = existsSync(path);
  /** The outermost of the folders that had to be created for the work folder; undefined if none. */
  const outermost = writingTo(out, () => makeFolder(path));
  return {
    path,
    /** Whether the folder existed, so that its parts may be used. */
    existed,
    /** If the parts are not worth keeping, removes the work folder and the folders created with it. */
    abandon(): void {
      try {
        const sizes = readdirSync(path).map((name) => statSync(join(path, name)).size);
        if (sizes.reduce((sum, size) => sum + size, 0) >= worthKeeping) return;
        rmSync(path, { recursive: true });
        if (outermost === undefined) return;
        const last = dirname(resolve(outermost));
        for (let folder = dirname(resolve(path)); folder !== last; folder = dirname(folder)) rmdirSync(folder);
      } catch {
        // Ignored (a folder has other files, or the disk fails), because the error that ended the preparation matters more.
      }
    },
    remove: (): void => rmSync(path, { recursive: true, force: true }),
  };
}
