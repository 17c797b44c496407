// Temporary folders, removed by `using`. The folder of a killed process is removed when the next folder for the same purpose is made.
import { lstatSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';

/** An empty folder that only this user can read. `using` removes it. */
export class TemporaryFolder implements Disposable {
  readonly path: string;

  /** @param purpose a word that becomes part of the folder's name. @throws the file system's error */
  constructor(purpose: string) {
    // The path names host and container: several hosts may share the folder for temporary files, and each numbers its processes.
    const container = process.platform === 'linux' ? readlinkSync('/proc/self/ns/pid').replaceAll(/\D/g, '') : '';
    const start = join(tmpdir(), `gpt2.ts-${purpose}-${hostname()}-${container}-`);
    for (const path of readdirSync(tmpdir()).map((name) => join(tmpdir(), name))) {
      const owner = path.startsWith(start) ? /^(\d+)-\w{6}$/.exec(path.slice(start.length))?.[1] : undefined;
      if (owner !== undefined && isGone(Number(owner), path)) rmSync(path, { recursive: true, force: true });
    }
    this.path = mkdtempSync(`${start}${process.pid}-`);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/** Whether a folder belongs to this user, and its maker, the process with the id `owner`, has ended. */
function isGone(owner: number, path: string): boolean {
  try {
    process.kill(owner, 0);
    return false;
  } catch (error) {
    const isOurs = lstatSync(path, { throwIfNoEntry: false })?.uid === process.getuid!();
    return isOurs && (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}
