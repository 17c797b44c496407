// The folder of encoded parts, until the shards are complete. A killed preparation resumes from it; one that fails before any
// part is worth keeping removes it.
import { existsSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { makeFolder } from '../../../base/files/make-folder.ts';
import { unfinishedFolder } from '../../shards/find-shards.ts';
import { writingTo } from '../../standing.ts';

/** Parts of fewer bytes in total are quickly made again. */
const worthKeeping = 1 << 20;

export class WorkFolder {
  readonly path: string;
  /** Whether it existed, so that its parts may be used. */
  readonly existed: boolean;
  /** The outermost folder that was created for it. */
  readonly #outermost: string | undefined;

  /** @throws Gpt2Error if it cannot be created */
  constructor(out: string) {
    this.path = join(out, unfinishedFolder);
    this.existed = existsSync(this.path);
    this.#outermost = writingTo(out, () => makeFolder(this.path));
  }

  /** Removes it, and the folders created for it, if it holds nothing worth keeping. */
  abandon(): void {
    try {
      const sizes = readdirSync(this.path).map((name) => statSync(join(this.path, name)).size);
      if (sizes.reduce((sum, size) => sum + size, 0) >= worthKeeping) return;
      rmSync(this.path, { recursive: true });
      if (this.#outermost === undefined) return;
      const last = dirname(resolve(this.#outermost));
      for (let folder = dirname(resolve(this.path)); folder !== last; folder = dirname(folder)) rmdirSync(folder);
    } catch {
      // Other files are in it, or the disk fails: the error that ended the preparation matters more.
    }
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
