// Iterates over the events of a run: `for await (const event of trainEvents(options))`.
import { Readable } from 'node:stream';
import { usageError } from '../base/errors.ts';
import type { RunEvent } from '../runs/schema.ts';
import type { ProgramOptions } from './plan/program-parts.ts';
import { boundHooks, checkHooks, StoppedError, type TrainHooks, type TrainResult } from './run/hooks.ts';
import { train } from './train.ts';

/**
 * Trains as the options say, yields each event once it is in the run log, and returns the result of the run. Leaving the loop early
 * saves the run and stops it after the step in progress, as Ctrl-C does.
 * @throws as `train`
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * for await (const event of trainEvents({ ...small, steps: 2, valEvery: 0, out: 'runs/events' })) {
 *   if (event.event === 'train') console.log(event.step, event.loss);
 * }
 */
export async function* trainEvents(
  options: ProgramOptions,
  hooks: Omit<TrainHooks, 'signal' | 'onEvent'> = {},
): AsyncGenerator<RunEvent, TrainResult> {
  const controller = new AbortController();
  const events = new Readable({ objectMode: true, read() {} });
  const onEvent = (event: RunEvent) => void events.push(event);
  checkHooks(hooks);
  for (const name of ['signal', 'onEvent'] as const) {
    if ((hooks as TrainHooks)[name])
      throw usageError`trainEvents() takes no ${name}: it yields the events, and leaving its loop stops the run; train() takes ${name}`;
  }
  const run = train(options, { ...boundHooks(hooks), signal: controller.signal, onEvent }).finally(() =>
    events.push(null),
  );
  // `await run` below throws the error; until then the rejection must not count as unhandled.
  run.catch(() => {});
  try {
    yield* events as AsyncIterable<RunEvent>;
    return await run;
  } finally {
    controller.abort(0);
    await run.catch((error) => {
      if (!(error instanceof StoppedError)) throw error;
    });
  }
}
