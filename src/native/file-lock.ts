// Locks files against other processes with flock(2).
import os from 'node:os';
import { lastErrno, loadShared } from './koffi.ts';

/** LOCK_EX | LOCK_NB: exclusive, without waiting. */
const exclusiveNow = 2 | 4;

/**
 * Locks an open file against other processes, until this process closes the file or ends.
 * @returns false if another process has locked the file; true also where files cannot be locked
 */
export function lockFile(file: number): boolean {
  let flock: (file: number, operation: number) => number;
  try {
    const library = loadShared(process.platform === 'darwin' ? 'libSystem.dylib' : 'libc.so.6');
    flock = library.func('flock', 'int', ['int', 'int']) as typeof flock;
  } catch {
    return true;
  }
  return flock(file, exclusiveNow) === 0 || lastErrno() !== os.constants.errno.EWOULDBLOCK;
}
