// Calls the functions that a program gives to `train`. The first error of one asks the run to stop, which saves it.
import { boundHooks, type SessionHooks, type TrainHooks } from './run/hooks.ts';

/**
 * Does `work` with hooks that never throw, and waits for the promises that they return.
 * @throws the first error of a hook, or else that of `work`
 */
export async function withCallbacks<R>(hooks: TrainHooks, work: (hooks: SessionHooks) => Promise<R>): Promise<R> {
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
  const result = work({ ...given, signal: AbortSignal.any(signals), canStop: hooks.signal !== undefined });
  const [ended] = await Promise.allSettled([result]);
  await Promise.all(running);
  if (!failure) return result;
  // Says where the run was saved, or why it was not.
  if (ended.status === 'rejected') given.onNotice?.((ended.reason as Error).message);
  await Promise.all(running);
  throw failure.error;
}
