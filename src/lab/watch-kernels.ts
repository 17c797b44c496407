// `kernel watch`: tests a folder's kernels whenever one of its files is saved, and on a GPU times them if they are correct.
import { existsSync, watch } from 'node:fs';
import { basename, resolve } from 'node:path';
import { CompileError, explained, Gpt2Error } from '../base/errors.ts';
import type { KernelRound, RoundKernel } from '../report/kernel-round.ts';
import { benchJobs } from './bench-kernels.ts';
import { KernelProcess } from './kernel-process.ts';
import type { Job } from './messages.ts';
import { jobsOf, type LabOptions, testJobs } from './test-kernels.ts';
import type { TestedSize } from './test-op.ts';

/** Files whose changes start a new test: sources, headers and cards. The history file does not count, because the test writes it. */
const watched = /\.(cuh?|h|ts|mjs)$/;
/** Delay after a change, because editors write a file in several steps. */
const quietMilliseconds = 30;
/** Interval of checking whether a removed folder exists again. */
const lookMilliseconds = 200;
/** Most earlier rounds that the page lists. */
const mostRounds = 20;

interface Watching {
  readonly onLine: (line: string) => void;
  /** Called before each round, that is, at the start and after each save. */
  readonly onRound: () => void;
  readonly onChange?: (round: KernelRound) => void;
}

/** Runs a round (compile, test, time) at the start and after each save, forever. @throws Gpt2Error if the folder cannot be watched */
export async function watchKernels(options: LabOptions, watching: Watching): Promise<never> {
  const { folder } = options;
  const { onLine, onRound } = watching;
  let changed = () => {};
  explained(`cannot watch ${folder}`, 'name a folder with a card', () => {
    watchFolder(folder, () => changed());
  });
  let round: Round | undefined;
  let history: KernelRound['history'] = [];
  using child = new KernelProcess({ ...options, onLoaded: (ms) => round?.loaded(ms) });
  for (;;) {
    const next = new Promise<void>((done) => {
      changed = () => setTimeout(done, quietMilliseconds);
    });
    onRound();
    const before = performance.now();
    round = new Round(folder, history, watching);
    await round.run(child, options);
    const parts = Object.entries(round.spent).filter(([, ms]) => ms > 0);
    const text = parts.length === 0 ? '' : ` (${parts.map(([name, ms]) => `${name} ${seconds(ms)}`).join(', ')})`;
    const took = seconds(performance.now() - before);
    history = [round.summary(`${took} s`), ...history].slice(0, mostRounds);
    onLine(`took ${took} s${text}; waits for the next save, Ctrl-C ends`);
    await next;
  }
}

/** Calls `changed` when a source is saved, and when the removed or moved folder exists again. */
function watchFolder(folder: string, changed: () => void): void {
  const watcher = watch(folder, (_, name) => {
    if (name === null || watched.test(name)) changed();
    // An event with the folder's name: the folder was removed or moved, and its watcher reports nothing more.
    if (name !== basename(resolve(folder))) return;
    watcher.close();
    const looking = setInterval(() => {
      if (!existsSync(folder)) return;
      clearInterval(looking);
      watchFolder(folder, changed);
      changed();
    }, lookMilliseconds);
  });
}

const seconds = (ms: number): string => (ms / 1000).toFixed(2);

/** One round: the tests and timings after a save. */
class Round {
  /** Milliseconds of each stage so far. Compiling is not included in testing and timing. */
  readonly spent = { compiling: 0, testing: 0, timing: 0 };
  readonly #onLine: Watching['onLine'];
  readonly #onChange: (round: KernelRound) => void;
  #known: KernelRound;
  /** Index of the current kernel, and the stage that begins when this kernel is loaded. */
  #index = -1;
  #part: 'testing' | 'timing' = 'testing';

  constructor(folder: string, history: KernelRound['history'], { onLine, onChange = () => {} }: Watching) {
    this.#onLine = onLine;
    this.#onChange = onChange;
    const time = new Date().toTimeString().slice(0, 8);
    const name = basename(resolve(folder));
    this.#known = { folder: name, time, state: 'compiling', spent: this.spent, kernels: [], history };
    this.#change({});
  }

  summary(took: string): KernelRound['history'][number] {
    const { time, kernels, error } = this.#known;
    const results = kernels.map(({ name, sentence, tested }) => {
      const wrong = tested.filter(([, , result]) => result === 'wrong').length;
      return `${name}: ${wrong > 0 ? `wrong at ${wrong} of ${tested.length} sizes` : sentence}`;
    });
    return [time, error ?? results.join('; '), took];
  }

  loaded(ms: number): void {
    this.spent.compiling += ms;
    this.#kernel({ state: this.#part });
    this.#change({ state: this.#part });
  }

  async run(child: KernelProcess, options: LabOptions): Promise<void> {
    try {
      const jobs = await jobsOf(child, options);
      const waiting = { state: 'waiting', sentence: '', tested: [], times: [] } as const;
      this.#change({ kernels: jobs.map(({ op, dtype }) => ({ name: `${op} ${dtype}`, ...waiting })) });
      await this.#each(jobs, 'testing', (job) => this.#test(child, job, options));
      const isRight = this.#known.kernels.every(({ state }) => state === 'right');
      // Time kernels only on a GPU: times in the emulator say nothing about a GPU.
      if (isRight && options.device.kind === 'cuda') {
        await this.#each(jobs, 'timing', (job) => this.#time(child, job, options));
      }
      const states = new Set(this.#known.kernels.map(({ state }) => state));
      this.#change({ state: isRight ? 'right' : states.has('wrong') ? 'wrong' : 'notCompiled' });
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
      this.#onLine(error.message);
      this.#kernel({ state: 'wrong' });
      this.#change({ state: 'wrong', error: error.message });
    }
  }

  async #each(jobs: readonly Job[], part: 'testing' | 'timing', work: (job: Job) => Promise<void>): Promise<void> {
    const begin = performance.now() - this.spent.compiling;
    this.#part = part;
    for (const [index, job] of jobs.entries()) {
      this.#index = index;
      this.#kernel({ state: 'compiling' });
      this.#change({ state: 'compiling' });
      await work(job);
    }
    this.spent[part] = performance.now() - this.spent.compiling - begin;
  }

  async #test(child: KernelProcess, job: Job, options: LabOptions): Promise<void> {
    const sizes: TestedSize[] = [];
    const lines: string[] = [];
    const onLine = (line: string) => {
      lines.push(line);
      this.#onLine(line);
    };
    const onSize = (tested: TestedSize) => {
      sizes.push(tested);
      const rows = sizes.map((one) => [one.sizes, `${one.results}`, one.isRight ? one.error : 'wrong'] as const);
      this.#kernel({ tested: rows, ...(tested.isRight && { sentence: `right at ${sizes.length} sizes so far` }) });
    };
    let state: RoundKernel['state'] = 'wrong';
    const begin = performance.now();
    const onError = (error: Gpt2Error) => {
      if (!(error instanceof CompileError)) return;
      state = 'notCompiled';
      this.spent.compiling += performance.now() - begin;
    };
    const failed = await testJobs(child, [job], options, { isBrief: true, onLine, onSize, onError });
    const wrong = sizes.filter(({ isRight }) => !isRight);
    const others = wrong.length > 1 ? `; wrong at ${wrong.length} of ${sizes.length} sizes` : '';
    if (failed.length === 0) return this.#kernel({ state: 'right', sentence: `right at ${sizes.length} sizes` });
    const [first] = wrong;
    const ended = state === 'wrong' ? 'failed' : 'does not compile';
    const sentence = first ? `${first.sizes}: ${first.wrong!.sentence}${others}` : ended;
    // The lines after the descriptions of wrong tensors are the error that ended the test.
    const error = lines.slice(wrong.reduce((sum, each) => sum + each.lines.length, 0)).join('\n') || undefined;
    this.#kernel({ state, sentence, wrong: first?.wrong, error });
  }

  async #time(child: KernelProcess, job: Job, options: LabOptions): Promise<void> {
    const onTimed = (timed: RoundKernel['times'][number]) =>
      this.#kernel({ times: [...this.#known.kernels[this.#index]!.times, timed] });
    await benchJobs(child, [job], options, { isBrief: true, onLine: this.#onLine, onTimed });
    this.#kernel({ state: 'right' });
  }

  /** Changes the displayed state of the current kernel. */
  #kernel(changes: Partial<RoundKernel>): void {
    const kernels = this.#known.kernels.map((kernel, index) =>
      index === this.#index ? { ...kernel, ...changes } : kernel,
    );
    this.#change({ kernels });
  }

  #change(changes: Partial<KernelRound>): void {
    this.#known = { ...this.#known, ...changes, spent: { ...this.spent } };
    this.#onChange(this.#known);
  }
}
