// Calls the functions that a program gives to `train`. The first error of one asks the run to stop, which saves it.
import { boundHooks, type SessionHooks, type TrainHooks } from './run/hooks.ts';

/** Hooks that never throw. */
export interface GuardedHooks extends SessionHooks {
  /** Waits for the promises that hooks returned. @throws the first error of a hook, or else that of the run, if there is one */
  ended(run: { readonly error: unknown } | undefined): Promise<void>;
}

export function guardHooks(hooks: TrainHooks): GuardedHooks {
  const stopping = new AbortController();
  const running = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const guarded =
    (hook: (...given: unknown[]) => unknown) =>
    (...given: unknown[]) => {
      const done = new Promise((resolve) => resolve(hook(...given))).then(
        () => void running.delete(done),
        (error: unknown) => {
          running.delete(done);
          failure ??= { error };
          stopping.abort();
        },
      );
      running.add(done);
    };
  const given: TrainHooks = Object.fromEntries(
    Object.entries(boundHooks(hooks)).map(([name, hook]) => [name, typeof hook === 'function' ? guarded(hook) : hook]),
  );
  const signals = [stopping.signal, ...(hooks.signal ? [hooks.signal] : [])];
  return {
    ...given,
    signal: AbortSignal.any(signals),
    canStop: hooks.signal !== undefined,
    async ended(run) {
      await Promise.all(running);
      // It tells where the run was saved, or why it was not.
      if (failure && run) given.onNotice?.((run.error as Error).message);
      await Promise.all(running);
      const first = failure ?? run;
      if (first) throw first.error;
    },
  };
}
