// Runs the program as a user does, in a folder of its own, and makes small data sets for it.
import { type SpawnSyncOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { CommanderError } from 'commander';
import { afterAll, afterEach, expect, onTestFinished, vi } from 'vitest';
import { ExitError, Gpt2Error } from '../../src/base/errors.ts';
import { checkedJson } from '../../src/base/files/checked-json.ts';
import { writeShard } from '../../src/data/shards/shard.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { moduleLoader, programPath } from './built.ts';

/** Arguments of node that run `gpt2`. */
export const command = [...moduleLoader, programPath];

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program, which need not be gpt2. */
export const spawned = (program: string, args: readonly string[], options: SpawnSyncOptions = {}) =>
  spawnSync(program, args, { ...options, encoding: 'utf8' });

/** Output of a command that must end with this code. */
export function withCode<T extends Pick<Finished, 'code'> & { stderr?: string }>(code: number, finished: T): T {
  expect(finished.code, finished.stderr).toBe(code);
  return finished;
}

/** The output of a command that must succeed without a word on standard error. */
export function quiet({ code, stdout, stderr }: Finished): string {
  expect([code, stderr]).toEqual([0, '']);
  return stdout;
}

/** Words as a user types them, divided at spaces that no quotes hold; or the words themselves. */
export type Line = string | readonly string[];
export const wordsOf = (line: Line): string[] =>
  typeof line === 'string'
    ? [...line.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3]!)
    : [...line];

/** A folder for the tests of a file, or a new one for each test; it is made when it is first used. */
export function workplace(each?: 'each'): Workplace {
  const place = new Workplace();
  (each ? afterEach : afterAll)(() => place[Symbol.dispose]());
  return place;
}

/** A temporary folder that goes when the test does. */
export class Workplace {
  #folder: string | undefined;

  get folder(): string {
    this.#folder ??= mkdtempSync(join(tmpdir(), 'gpt2-'));
    return this.#folder;
  }

  path(...names: string[]): string {
    return join(this.folder, ...names);
  }

  /** Writes a file by its name in the folder, or its path, and gives its path. */
  file(name: string, content: string | Uint8Array, mode?: number): string {
    const path = resolve(this.folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content, { mode });
    return path;
  }

  /** Writes an executable file of the shell's commands, and gives its path. */
  script(name: string, commands: string): string {
    return this.file(name, `#!/bin/sh\n${commands}\n`, 0o755);
  }

  /**
   * Runs `gpt2 ...args` in the folder, with `input` on its standard input, for so many milliseconds at most: then it is killed,
   * and ranks that it has started find out.
   */
  run(line: Line, env: Record<string, string> = {}, input = '', timeout?: number): Finished {
    const { status, stdout, stderr } = spawnSync(process.execPath, [...command, ...wordsOf(line)], {
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

  /** The same of a command that must succeed. */
  ok(line: Line, env: Record<string, string> = {}, input = ''): Finished {
    return withCode(0, this.run(line, env, input));
  }

  /**
   * The same in this process, which takes a tenth of the time: for a command that starts no other process. Reports errors as
   * src/cli.ts does.
   */
  async here(line: Line, env: Record<string, string> = {}): Promise<Finished> {
    const { program } = await import('../../src/commands/command-line.ts');
    const written = { stdout: '', stderr: '' };
    const spies = (['stdout', 'stderr'] as const).map((name) =>
      vi.spyOn(process[name], 'write').mockImplementation((text) => {
        written[name] += text;
        return true;
      }),
    );
    const before = { folder: process.cwd(), env: { ...process.env } };
    process.chdir(this.folder);
    Object.assign(process.env, { NO_COLOR: '1', ...env });
    const args = wordsOf(line);
    const fail = (error: unknown): number => {
      if ((error as Error).name === 'CommanderError') return (error as CommanderError).exitCode === 0 ? 0 : 2;
      if (error instanceof ExitError) return error.exitCode;
      if (!(error instanceof Gpt2Error)) throw error;
      written.stderr += `${args.includes('--verbose') ? error.stack : error.message}\n`;
      return error.exitCode;
    };
    try {
      const root = program(() => new AbortController().signal);
      return { code: await root.parseAsync(args, { from: 'user' }).then(() => 0, fail), ...written };
    } finally {
      for (const spy of spies) spy.mockRestore();
      process.chdir(before.folder);
      for (const name of Object.keys(process.env)) if (!(name in before.env)) delete process.env[name];
      Object.assign(process.env, before.env);
    }
  }

  async okHere(line: Line, env: Record<string, string> = {}): Promise<Finished> {
    return withCode(0, await this.here(line, env));
  }

  /** Runs it in a process of its own beside other tests: while it runs, they do. */
  async finished(line: Line, env: Record<string, string> = {}): Promise<Finished> {
    const { said, ended } = this.begin(line, env);
    return { code: (await ended).code, ...said };
  }

  /** Starts it, and collects what it says; it is killed when the test ends. */
  begin(line: Line, env: Record<string, string> = {}, program?: readonly string[]) {
    const child = this.start(line, env, program);
    onTestFinished(() => void child.kill('SIGKILL'));
    const said = { stdout: '', stderr: '' };
    for (const name of ['stdout', 'stderr'] as const) {
      child[name].setEncoding('utf8').on('data', (text: string) => {
        said[name] += text;
      });
    }
    const closed = once(child, 'close') as Promise<[number | null, string | null]>;
    return { child, said, ended: closed.then(([code, signal]) => ({ code, signal })) };
  }

  /** Starts `gpt2 ...args` in a process group of its own. */
  start(line: Line, env: Record<string, string> = {}, program: readonly string[] = command) {
    return spawn(process.execPath, [...program, ...wordsOf(line)], {
      cwd: this.folder,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, NO_COLOR: '1', ...env },
    });
  }

  /**
   * Writes shards of random tokens below a bound: one for training, or one of each of several sizes, and one for validation.
   * The tokenizer is `bytes`: steps take a millisecond, checkpoints some hundred kilobytes. `vocabulary`: of another size, for
   * which there is a tokenizer only if it is GPT-2's 50257. `listed`: dataset.json lists the shards, as prepro's does.
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
    const tokenizer = vocabulary === undefined ? 'bytes' : 'gpt2';
    const dataset = { source: 'random', tokenizer, vocabularySize: vocabulary ?? 257, shards: listed ? shards : [] };
    writeFileSync(this.path(name, 'dataset.json'), checkedJson(dataset));
    return this.path(name);
  }

  [Symbol.dispose](): void {
    if (this.#folder) rmSync(this.#folder, { recursive: true, force: true });
    this.#folder = undefined;
  }
}

/** Options of a model so small that a step takes milliseconds. */
export const tinyModel = ['--layers', '1', '--channels', '32', '--heads', '2', '--context', '64', '--device', 'cpu'];
