// Runs the program as a user does, in a folder of its own, and makes small data sets for it.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeShard } from '../../src/shards/shard.ts';
import { Random } from './tensors.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** `node --import tsx src/cli.ts`, callable from any folder. */
export const command = ['--import', join(root, 'node_modules/tsx/dist/loader.mjs'), join(root, 'src/cli.ts')];

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A temporary folder that goes when the test does. */
export class Workplace {
  readonly folder = mkdtempSync(join(tmpdir(), 'gpt2-'));

  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** Runs `gpt2 ...args` in the folder. */
  run(args: readonly string[], env: Record<string, string> = {}): Finished {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...command, ...args], {
      cwd: this.folder,
      encoding: 'utf8',
      maxBuffer: 1 << 28,
      env: { ...process.env, NO_COLOR: '1', ...env },
    });
    return { code: status, stdout, stderr };
  }

  /** Starts `gpt2 ...args` in a process group of its own. */
  start(args: readonly string[]) {
    return spawn(process.execPath, [...command, ...args], {
      cwd: this.folder,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1' },
    });
  }

  /**
   * Writes train and val shards of random tokens below a bound, for a model of GPT-2's vocabulary or, as small ones are
   * quicker, of `vocabulary`.
   */
  data({
    train = 5000,
    val = 2000,
    below = 100,
    name = 'data',
    vocabulary = undefined as number | undefined,
  } = {}): string {
    const random = new Random(train);
    mkdirSync(this.path(name), { recursive: true });
    for (const [role, count] of [
      ['train', train],
      ['val', val],
    ] as const) {
      writeShard(this.path(name, `random_${role}.bin`), Uint16Array.from(random.integers(count, below)));
    }
    if (vocabulary !== undefined) {
      const dataset = { source: 'random', tokenizer: 'gpt2', vocabularySize: vocabulary, shards: [] };
      writeFileSync(this.path(name, 'dataset.json'), JSON.stringify(dataset));
    }
    return this.path(name);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Options of a model so small that a step takes milliseconds. */
export const tinyModel = ['--layers', '1', '--channels', '32', '--heads', '2', '--context', '64', '--device', 'cpu'];
