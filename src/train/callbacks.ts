// Calls the hooks that a program passes to `train`. The first error of a hook asks the run to stop, which saves it.
import { boundHooks, type SessionHooks, type TrainHooks } from './run/hooks.ts';

/** Hooks that never throw. */
export interface GuardedHooks extends SessionHooks {
  /** Waits for the promises that hooks returned. @throws the first error of a hook, else the run's error, if there is one */
  ended(run: { readonly error: unknown } | undefined): Promise<void>;
}

export function guardHooks(hooks: TrainHooks): GuardedHooks {
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
