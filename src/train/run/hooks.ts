// Types of the hooks (a program's callbacks) and the result of `train`. Guards the calls of hooks: the first error of a hook stops
// the run, which saves its state.
import { argumentKinds, checkGiven, checkValue, isPlain } from '../../base/checks/given.ts';
import { Gpt2Error } from '../../base/errors.ts';
import { checkPlace, type Place } from '../../ranks/place.ts';
import type { LivePage } from '../../report/live/live-page.ts';
import type { RunEvent } from '../../runs/schema.ts';
import type { Outlook } from '../plan/outlook.ts';

export interface RunDescription {
  /** The name of a preset, such as "d12", or the model's sizes. */
  readonly model: string;
  readonly parameters: number;
  readonly tokensPerStep: number;
  /** Number of micro-batches of a step on each rank. */
  readonly accumulation: number;
  readonly steps: number;
  /** The learning rate over the steps: "lr 0.0005, warmup 100, cosine to 0.1". */
  readonly rate: string;
  /** Passes of the whole run over the training data; 0 if the caller of `train` supplies the batches, or with --overfit-batch. */
  readonly epochs: number;
  readonly startStep: number;
  /** The step at which this process stops: `steps`, or earlier with stopAfter. */
  readonly lastStep: number;
  /** Number of steps between the training lines that the terminal shows. */
  readonly logEvery: number;
  readonly memoryBytes: number;
  readonly device: string;
  readonly out: string;
}

/**
 * A program's callbacks. If a callback throws, or the promise that it returns rejects, the run is saved and stops, as if `signal`
 * were aborted; then `train` throws the error. `train` waits for the promises of callbacks before it ends.
 */
export interface TrainHooks {
  /**
   * This process's place among the ranks of a job; default: the process trains alone. If a job on GPUs fails, this process exits
   * within seconds, whatever else it does, because a call that waits for its GPU may never return.
   */
  readonly place?: Place | undefined;
  /**
   * Aborting the signal saves and ends the run after the current step. Without ranks, a step of over 5 s is abandoned after its
   * current micro-batch. The reason of the abort is the exit code of `StoppedError`; a reason that is no number counts as 130.
   */
  readonly signal?: AbortSignal | undefined;
  /** The words of the command line, for the run log. */
  readonly command?: readonly string[] | undefined;
  /** Called once, before the first step. */
  readonly onStart?: ((run: RunDescription) => void) | undefined;
  /** Called with one-line remarks that are not events: a default that was chosen, a skipped checkpoint, a full disk. */
  readonly onNotice?: ((text: string) => void) | undefined;
  /** Called with the received and the total bytes while `model` is downloaded from the Hugging Face hub. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
  /** Called with the live page of `serve` when the run has ended and the device is free. Default: the page is closed. */
  readonly onPage?: ((page: LivePage) => void) | undefined;
  /** Called one time: after the third step or, in a run of over a minute, when steps have also taken 2 s. Not if the run ends earlier. */
  readonly onOutlook?: ((outlook: Outlook) => void) | undefined;
  /** Called on each rank during a step of over 5 s, with the number of finished micro-batches and the number of all. */
  readonly onMicroBatch?: ((done: number, all: number) => void) | undefined;
  /** Called after each event is logged, with the event's JSON line and, once known, the remaining seconds of the run. */
  readonly onEvent?: ((event: RunEvent, context: { json: string; remaining: number | undefined }) => void) | undefined;
}

/** Hooks as the run calls them: guarded, so that a call never throws. */
export interface SessionHooks extends TrainHooks {
  readonly signal: AbortSignal;
  /** Whether the program passed a `signal`. Only then is a failed `saveNow` retried, until the signal is aborted. */
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

/** Checks names and types of hooks. If `hooks` is an instance of a class, it may have other fields too. @throws UsageError */
export function checkHooks(hooks: TrainHooks): void {
  checkValue('hooks', 'object', hooks);
  const ofClass = isPlain(hooks) ? {} : boundHooks(hooks);
  const hasHook = Object.values(ofClass).some((hook) => hook !== undefined);
  checkGiven(hasHook ? ofClass : hooks, {}, hookKinds);
  if (hooks.place) checkPlace(hooks.place);
}

/** The hooks by name, each function bound to `hooks`. `Object.keys` would miss the methods of a class. */
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
      // Only the hook's error is thrown below. Print the run's error too: it says where the run was saved, or why not.
      if (failure && run) guardedHooks.onNotice?.((run.error as Error).message);
      await Promise.all(running);
      const first = failure ?? run;
      if (first) throw first.error;
    },
  };
}

export interface TrainResult {
  readonly out: string;
  /** Number of finished steps, including steps before a resume. */
  readonly steps: number;
  readonly loss?: number;
  /** The last validation loss; absent without validation. */
  readonly valLoss?: number;
}

/**
 * The error of a run that stopped because `signal` was aborted. The message says what was saved.
 * @example if (error instanceof StoppedError) process.exitCode = error.exitCode; // 130 after Ctrl-C
 */
export class StoppedError extends Gpt2Error {
  override readonly exitCode: number;
  override readonly name = 'StoppedError';

  /** @param signal the aborted signal, whose reason is the exit code */
  constructor(message: string, signal: AbortSignal | undefined) {
    super(message);
    this.exitCode = typeof signal?.reason === 'number' ? signal.reason : 130;
  }
}
