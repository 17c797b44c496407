// Runs the program as a user does, in a folder of its own, and makes small data sets for it.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { checkedJson } from '../../src/base/files/checked-json.ts';
import { writeShard } from '../../src/data/shards/shard.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
/** With `--import`, lets node run TypeScript from any folder. */
export const loader = join(root, 'node_modules/tsx/dist/loader.mjs');
/** Arguments of node that run `gpt2` from the sources. */
export const sourceCommand = ['--import', loader, join(root, 'src/cli.ts')];
/** Arguments of node that run `gpt2`: dist/, which loads in 0.3 s instead of 1 s, unless a source is newer. */
export const command = isBuilt() ? [join(root, 'dist/cli.js')] : sourceCommand;

function isBuilt(): boolean {
  const built = statSync(join(root, 'dist/cli.js'), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  return sources.every((name) => statSync(join(root, 'src', name)).mtimeMs < built);
}

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

  /**
   * Runs `gpt2 ...args` in the folder, with `input` on its standard input, for so many milliseconds at most: then it is killed,
   * and ranks that it has started find out.
   */
  run(args: readonly string[], env: Record<string, string> = {}, input = '', timeout?: number): Finished {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...command, ...args], {
      cwd: this.folder,
      encoding: 'utf8',
      input,
      maxBuffer: 1 << 28,
      timeout,
      killSignal: 'SIGKILL',
      env: { ...process.env, NO_COLOR: '1', ...env },
    });
    return { code: status, stdout, stderr };
  }

  /** The same beside other tests: while it runs, they do. */
  async finished(args: readonly string[], env: Record<string, string> = {}): Promise<Finished> {
    const child = this.start(args, env);
    const [stdout, stderr, [code]] = await Promise.all([
      readText(child.stdout),
      readText(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    return { code, stdout, stderr };
  }

  /** Starts `gpt2 ...args` in a process group of its own. */
  start(args: readonly string[], env: Record<string, string> = {}) {
    return spawn(process.execPath, [...command, ...args], {
      cwd: this.folder,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', ...env },
    });
  }

  /**
   * Writes shards of random tokens below a bound: one for training, or one of each of several sizes, and one for validation.
   * Without `vocabulary` it is GPT-2's; a small one makes steps of a millisecond and checkpoints of some hundred kilobytes.
   * `listed`: dataset.json then says what the shards are, as prepro's does.
   */
  data({
    train = 5000 as number | readonly number[],
    val = 2000,
    below = 100,
    name = 'data',
    vocabulary = undefined as number | undefined,
    listed = false,
  } = {}): string {
    const sizes = [train].flat();
    const random = new Random(sizes[0]!);
    mkdirSync(this.path(name), { recursive: true });
    const write = (role: string, file: string, count: number) => {
      const written = writeShard(this.path(name, file), Uint16Array.from(random.integers(count, below)));
      return { file, role, ...written };
    };
    const shards = sizes.map((count, index) =>
      write('train', sizes.length > 1 ? `random_train_00000${index + 1}.bin` : 'random_train.bin', count),
    );
    shards.push(write('val', 'random_val.bin', val));
    if (vocabulary !== undefined) {
      const dataset = { source: 'random', tokenizer: 'gpt2', vocabularySize: vocabulary };
      writeFileSync(this.path(name, 'dataset.json'), checkedJson({ ...dataset, shards: listed ? shards : [] }));
    }
    return this.path(name);
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Options of a model so small that a step takes milliseconds. */
export const tinyModel = ['--layers', '1', '--channels', '32', '--heads', '2', '--context', '64', '--device', 'cpu'];
