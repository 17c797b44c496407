// Temporary folders that go with their process: one that a killed process left is removed when the next one is made.
import { closeSync, constants, existsSync, mkdtempSync, openSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { lockFile } from './file-lock.ts';

/** An empty folder that only this user can read. `using` removes it. */
export class TemporaryFolder implements Disposable {
  readonly path: string;
  /** Its lock, which ends with this process. */
  readonly #lock: number;

  /** @param purpose of the folder, in its name. @throws the file system's error */
  constructor(purpose: string) {
    const start = join(tmpdir(), `gpt2.ts-${purpose}-`);
    for (;;) {
      const path = mkdtempSync(start);
      const lock = openFolder(path);
      // Before the lock, another process may have removed it as one that was left.
      if (lock !== undefined && lockFile(lock) && existsSync(path)) {
        [this.path, this.#lock] = [path, lock];
        break;
      }
      if (lock !== undefined) closeSync(lock);
    }
    removeLeft(start, this.path);
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
    closeSync(this.#lock);
  }
}

const openFolder = (path: string): number | undefined => {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  } catch {
    // It is gone, or another user's.
    return undefined;
  }
};

/** Whether no process holds the lock of a folder. `work` runs while this process holds it. */
function whileUnlocked(path: string, work: () => void): boolean {
  const lock = openFolder(path);
  if (lock === undefined) return false;
  try {
    const isFree = lockFile(lock);
    if (isFree) work();
    return isFree;
  } finally {
    closeSync(lock);
  }
}

/** Removes the folders of that start whose processes are gone. @param own this process's, which shows whether locks work there */
function removeLeft(start: string, own: string): void {
  if (whileUnlocked(own, () => {})) return;
  for (const name of readdirSync(tmpdir())) {
    const path = join(tmpdir(), name);
    if (path.length !== own.length || !path.startsWith(start)) continue;
    try {
      whileUnlocked(path, () => rmSync(path, { recursive: true, force: true }));
    } catch {
      // What cannot be removed is left.
    }
  }
}
