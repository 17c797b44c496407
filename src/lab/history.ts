// History of a folder's kernels: the times of every version, as JSON lines in a file beside the card, which moves with the folder.
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { orElse } from '../base/errors.ts';
import type { OpBench, Times } from './bench-op.ts';

export const historyFile = '.gpt2-bench.jsonl';

/** The times of one version of a kernel, at one of the sizes with which a training step calls its op. */
export interface Entry extends Times {
  readonly time: string;
  /** Identifies the version: a hash of the card, its source and the files that the source includes. */
  readonly hash: string;
  readonly op: string;
  readonly dtype: string;
  readonly device: string;
  readonly sizes: string;
}

type Version = Pick<Entry, 'hash' | 'op' | 'dtype' | 'device'>;

/** All entries, the oldest first. A line that is not JSON, which a killed process can leave, is skipped. */
export function readHistory(folder: string): Entry[] {
  const path = join(folder, historyFile);
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .flatMap((line) => orElse([], () => [JSON.parse(line) as Entry]));
}

/** Appends a kernel's times to the folder's history. @returns the reason if they could not be written; undefined on success */
export function addToHistory(folder: string, version: Version, results: readonly OpBench[]): string | undefined {
  const time = new Date().toISOString();
  const lines = results.map(({ sizes, own }) => `${JSON.stringify({ time, ...version, sizes, ...own })}\n`);
  try {
    appendFileSync(join(folder, historyFile), lines.join(''));
    return undefined;
  } catch (cause) {
    return `the times are not kept: ${(cause as Error).message}`;
  }
}

const mostVersions = 20;

/** The last times of each other version of a kernel, at the same sizes, dtype and device: at most 20 versions, the newest first. */
export function earlierVersions(history: readonly Entry[], now: Version & Pick<Entry, 'sizes'>): Entry[] {
  const versions = new Map<string, Entry>();
  for (const entry of history) {
    const isSame = (['op', 'dtype', 'device', 'sizes'] as const).every((name) => entry[name] === now[name]);
    if (!isSame || entry.hash === now.hash) continue;
    versions.delete(entry.hash);
    versions.set(entry.hash, entry);
  }
  return [...versions.values()].reverse().slice(0, mostVersions);
}
