// Where the caches of this program are.
import { homedir } from 'node:os';
import { join } from 'node:path';

/** A folder of the user's cache: XDG_CACHE_HOME/gpt2.ts/NAME, or ~/.cache/gpt2.ts/NAME. It may not exist yet. */
export const cacheFolder = (name: string): string =>
  join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'gpt2.ts', name);
