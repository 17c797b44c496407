// Types of `train`'s arguments and result, and the calls of a program's hooks. The first error of a hook asks the run to stop, which
// saves it.
import { argumentKinds, checkGiven, checkValue, isPlain } from '../../base/checks/given.ts';
import { Gpt2Error } from '../../base/errors.ts';
import { checkPlace, type Place } from '../../ranks/place.ts';
import type { LivePage } from '../../report/live/live-page.ts';
import type { RunEvent } from '../../runs/schema.ts';
import type { Outlook } from '../plan/outlook.ts';

export interface RunDescription {
  /** "d12", or sizes. */
  readonly model: string;
  readonly parameters: number;
  readonly tokensPerStep: number;
  /** Micro-batches of a step, on each rank. */
  readonly accumulation: number;
  readonly steps: number;
  /** The learning rate over the steps: "lr 0.0005, warmup 100, cosine to 0.1". */
  readonly rate: string;
  /** How often the run reads the training data in total; 0 as in `Outlook`. */
  readonly epochs: number;
  readonly startStep: number;
  /** The step at which this process stops: `steps`, or earlier with stopAfter. */
  readonly lastStep: number;
  /** Number of steps between the training lines to show. */
  readonly logEvery: number;
  readonly memoryBytes: number;
  readonly device: string;
  readonly out: string;
}

/**
 * If a function here throws, or a promise that it returns rejects, the run is saved and ends as after `signal`; then `train`
 * throws that error. `train` waits for these promises before it ends.
 */
export interface TrainHooks {
  /**
   * This process's place among the ranks of a job; default: it trains alone. If a job on GPUs fails, this process exits within
   * seconds, even while it does other work, because a call that waits for its GPU may never return.
   */
  readonly place?: Place | undefined;
  /** Aborting it ends the run after the current step (without ranks, after the micro-batch of a step of over 5 s), with a save; its reason is the exit code (128 + the signal's number). */
  readonly signal?: AbortSignal | undefined;
  /** The command line, for the log. */
  readonly command?: readonly string[] | undefined;
  /** Called once, before step 0. */
  readonly onStart?: ((run: RunDescription) => void) | undefined;
  /** Called with one-line remarks that are not events: a default that was chosen, a skipped checkpoint, a full disk. */
  readonly onNotice?: ((text: string) => void) | undefined;
  /** Called with the received and the total bytes while `model` is downloaded from the Hugging Face hub. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /** Called with the live page of `serve` when the run has ended and the device is free. Default: the page is closed. */
  readonly onPage?: ((page: LivePage) => void) | undefined;
  /** Called once, after the third step of a process or, in a run of over a minute, after 2 s of steps; not if the run ends there. */
  readonly onOutlook?: ((outlook: Outlook) => void) | undefined;
  /** Called with the finished and all micro-batches of a step of over 5 s, on each rank. */
  readonly onMicroBatch?: ((done: number, all: number) => void) | undefined;
  /** Called for each event after it was logged, with its JSON line and the seconds left once known. */
  readonly onEvent?: ((event: RunEvent, context: { json: string; remaining: number | undefined }) => void) | undefined;
}

/** Hooks that never throw. */
export interface SessionHooks extends TrainHooks {
  readonly signal: AbortSignal;
  /** Whether the program can abort `signal`, which also ends the retries of a save. */
  readonly canStop: boolean;
  /** Waits for the promises that hooks returned. @throws the first error of a hook, else the run's error, if there is one */
  ended(run: { readonly error: unknown } | undefined): Promise<void>;
}

const hookKinds = {
  place: 'object',
  signal: argumentKinds.signal,
  command: 'texts',
  onStart: 'function',
  onNotice: 'function',
  onProgress: 'function',
  onPage: 'function',
  onOutlook: 'function',
  onMicroBatch: 'function',
  onEvent: 'function',
} as const;

/** An object of a class that has a hook may have other fields: they are its state. @throws UsageError */
export function checkHooks(hooks: TrainHooks): void {
  checkValue('hooks', 'object', hooks);
  const ofClass = isPlain(hooks) ? {} : boundHooks(hooks);
  const hasHook = Object.values(ofClass).some((hook) => hook !== undefined);
  checkGiven(hasHook ? ofClass : hooks, {}, hookKinds);
  if (hooks.place) checkPlace(hooks.place);
}

/** The hooks by name, each function bound to its object: methods of a class are not among an object's keys. */
export const boundHooks = (hooks: TrainHooks): TrainHooks =>
  Object.fromEntries(
    (Object.keys(hookKinds) as (keyof TrainHooks)[]).map((name) => {
      const hook = hooks[name];
      return [name, typeof hook === 'function' ? hook.bind(hooks) : hook];
    }),
  );

export function guardHooks(hooks: TrainHooks): SessionHooks {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const guarded =
    (hook: (...values: unknown[]) => unknown) =>
    (...values: unknown[]) => {
      const done = new Promise((resolve) => resolve(hook(...values))).then(
        () => void running.delete(done),
        (error: unknown) => {
          running.delete(done);
          failure ??= { error };
          stopping.abort();
        },
      );
      running.add(done);
    };
  const guardedHooks: TrainHooks = Object.fromEntries(
    Object.entries(boundHooks(hooks)).map(([name, hook]) => [name, typeof hook === 'function' ? guarded(hook) : hook]),
  );
  const signals = [stopping.signal, ...(hooks.signal ? [hooks.signal] : [])];
  return {
    ...guardedHooks,
    signal: AbortSignal.any(signals),
    canStop: hooks.signal !== undefined,
    async ended(run) {
      await Promise.all(running);
      // The run's error says where the run was saved, or why it was not.
      if (failure && run) guardedHooks.onNotice?.((run.error as Error).message);
      await Promise.all(running);
      const first = failure ?? run;
      if (first) throw first.error;
    },
  };
}

export interface TrainResult {
  readonly out: string;
  /** Number of updates, including those before a resume. */
  readonly steps: number;
  readonly loss?: number;
  /** The last validation loss; absent without validation. */
  readonly valLoss?: number;
}

/**
 * The run stopped because it was asked to. The message says what was saved.
 * @example if (error instanceof StoppedError) process.exitCode = error.exitCode; // 130 after Ctrl-C
 */
export class StoppedError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'StoppedError';

  /** @param signal its reason is the exit code */
  constructor(message: string, signal: AbortSignal | undefined) {
    super(message);
    this.exitCode = typeof signal?.reason === 'number' ? signal.reason : 130;
  }
}
