// Tests a folder's kernels whenever one of its files is saved, and on a GPU times them.
import { watch } from 'node:fs';
import { Gpt2Error } from '../errors.ts';
import { benchJobs } from './bench-kernels.ts';
import { KernelProcess } from './kernel-process.ts';
import { jobsOf, type LabOptions, testJobs } from './test-kernels.ts';

/** Sources, headers and cards; not the history, which a round writes itself. */
const watched = /\.(cuh?|h|ts|mjs)$/;
/** Editors write a file in several steps. */
const settleMilliseconds = 30;

interface Watching {
  readonly onLine: (line: string) => void;
  /** Called before each round. */
  readonly onRound: () => void;
}

/** Never returns. @throws Gpt2Error if the folder cannot be watched */
export async function watchKernels(options: LabOptions, { onLine, onRound }: Watching): Promise<never> {
  const { folder } = options;
  let changed = () => {};
  try {
    watch(folder, (_, name) => {
      if (name === null || watched.test(name)) changed();
    });
  } catch (cause) {
    throw new Gpt2Error(`cannot watch ${folder}: ${(cause as Error).message}; name a folder with a card`, { cause });
  }
  const spent = { compiling: 0, testing: 0, timing: 0 };
  const onLoaded = (ms: number) => {
    spent.compiling += ms;
  };
  using child = new KernelProcess({ ...options, onLoaded });
  for (;;) {
    const next = new Promise<void>((done) => {
      changed = () => setTimeout(done, settleMilliseconds);
    });
    onRound();
    Object.assign(spent, { compiling: 0, testing: 0, timing: 0 });
    const before = performance.now();
    await round(child, options, onLine, spent).catch((error: unknown) => {
      if (!(error instanceof Gpt2Error)) throw error;
      onLine(error.message);
    });
    const parts = Object.entries(spent).filter(([, ms]) => ms > 0);
    const text = parts.length === 0 ? '' : ` (${parts.map(([name, ms]) => `${name} ${seconds(ms)}`).join(', ')})`;
    onLine(`took ${seconds(performance.now() - before)} s${text}; waits for the next save, Ctrl-C ends`);
    await next;
  }
}

const seconds = (ms: number): string => (ms / 1000).toFixed(2);

async function round(
  child: KernelProcess,
  options: LabOptions,
  onLine: (line: string) => void,
  /** Milliseconds of its parts; the others are without compiling. */
  spent: Record<'compiling' | 'testing' | 'timing', number>,
): Promise<void> {
  const jobs = await jobsOf(child, options);
  const during = async <T>(part: 'testing' | 'timing', work: () => Promise<T>): Promise<T> => {
    const begin = performance.now() - spent.compiling;
    const result = await work();
    spent[part] = performance.now() - spent.compiling - begin;
    return result;
  };
  const wrong = await during('testing', () => testJobs(child, jobs, options, { isBrief: true, onLine }));
  // Times in the emulator say nothing about a GPU.
  if (wrong.length > 0 || options.device.kind !== 'cuda') return;
  await during('timing', () => benchJobs(child, jobs, options, { isBrief: true, onLine }));
}
