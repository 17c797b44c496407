// The folder in which parts are kept until the shards are whole. A preparation that was killed goes on from it; one that is
// refused before there is anything to go on from leaves nothing.
import { existsSync, mkdirSync, readdirSync, rmdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Gpt2Error } from '../../errors.ts';
import { unfinishedFolder } from '../../shards/find.ts';

/** Parts smaller than this together are made again in a moment. */
const worthKeeping = 1 << 20;

export class WorkFolder {
  readonly path: string;
  /** Whether there is one to go on from. */
  readonly existed: boolean;
  /** The outermost folder that had to be made for it. */
  readonly #outermost: string | undefined;

  /** @throws Gpt2Error if it cannot be made */
  constructor(out: string) {
    this.path = join(out, unfinishedFolder);
    this.existed = existsSync(this.path);
    try {
      this.#outermost = mkdirSync(this.path, { recursive: true });
    } catch (cause) {
      throw new Gpt2Error(`cannot write to ${out}: ${(cause as Error).message}; name another folder with --out`, {
        cause,
      });
    }
  }

  /** Takes it away if it holds nothing worth keeping, and the folders that were made for it. */
  abandon(): void {
    try {
      const sizes = readdirSync(this.path).map((name) => statSync(join(this.path, name)).size);
      if (sizes.reduce((sum, size) => sum + size, 0) >= worthKeeping) return;
      rmSync(this.path, { recursive: true });
      if (this.#outermost === undefined) return;
      const last = dirname(resolve(this.#outermost));
      for (let folder = dirname(resolve(this.path)); folder !== last; folder = dirname(folder)) rmdirSync(folder);
    } catch {
      // Something else lies there, or the disk refuses: what is told is why the preparation ended.
    }
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
