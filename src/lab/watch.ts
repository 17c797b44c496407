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
  let compiled = 0;
  const onCompiled = (ms: number) => {
    compiled += ms;
  };
  using child = new KernelProcess({ ...options, onCompiled });
  for (;;) {
    const next = new Promise<void>((done) => {
      changed = () => setTimeout(done, settleMilliseconds);
    });
    onRound();
    compiled = 0;
    const before = performance.now();
    await round(child, options, onLine).catch((error: unknown) => {
      if (!(error instanceof Gpt2Error)) throw error;
      onLine(error.message);
    });
    const took = `${seconds(performance.now() - before)} s, ${seconds(compiled)} of them to compile and load`;
    onLine(`took ${took}; waits for the next save, Ctrl-C ends`);
    await next;
  }
}

const seconds = (ms: number): string => (ms / 1000).toFixed(2);

async function round(child: KernelProcess, options: LabOptions, onLine: (line: string) => void): Promise<void> {
  const jobs = await jobsOf(child, options);
  const wrong = await testJobs(child, jobs, options, { isBrief: true, onLine });
  // Times in the emulator say nothing about a GPU.
  if (wrong.length === 0 && options.device.kind === 'cuda') await benchJobs(child, jobs, options, onLine);
}
