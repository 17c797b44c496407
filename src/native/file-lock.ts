// Locks files against other processes by flock(2).
import os from 'node:os';
import { orElse } from '../base/errors.ts';
import { lastErrno, loadShared } from './koffi.ts';

/** LOCK_EX | LOCK_NB: exclusive, without waiting. */
const exclusiveNow = 2 | 4;

/**
 * Locks an open file against other processes, until this process closes the file or ends.
 * @returns false if another process has locked the file; else true, also where files cannot be locked
 */
export function lockFile(file: number): boolean {
  const name = process.platform === 'darwin' ? 'libSystem.dylib' : 'libc.so.6';
  const flock = orElse(undefined, () => loadShared(name).func('flock', 'int', ['int', 'int']));
  return flock?.(file, exclusiveNow) !== -1 || lastErrno() !== os.constants.errno.EWOULDBLOCK;
}
