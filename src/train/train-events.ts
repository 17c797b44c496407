// A run as an iteration over its events: `for await (const event of trainEvents(options))`.
import type { TrainOptions } from '../options/table.ts';
import type { RunEvent } from '../runs/schema.ts';
import { StoppedError, type TrainHooks, type TrainResult } from './session.ts';
import { train } from './train.ts';

/**
 * Trains as the options say and gives each event after it was written to the run log; the generator's return value is the
 * run's. Leaving the loop early stops the run after its step, saved, as Ctrl-C does.
 * @throws as `train`
 * @example
 * const small = { layers: 2, channels: 64, heads: 2, device: 'cpu', batch: 2, sequence: 32 };
 * for await (const event of trainEvents({ ...small, steps: 2, valEvery: 0, out: 'runs/events' })) {
 *   if (event.event === 'train') console.log(event.step, event.loss);
 * }
 */
export async function* trainEvents(
  options: TrainOptions,
  hooks: Omit<TrainHooks, 'signal' | 'onEvent'> = {},
): AsyncGenerator<RunEvent, TrainResult> {
  const controller = new AbortController();
  const events: RunEvent[] = [];
  let wake = () => {};
  let isDone = false;
  const onEvent = (event: RunEvent) => {
    events.push(event);
    wake();
  };
  const run = train(options, { ...hooks, signal: controller.signal, onEvent }).finally(() => {
    isDone = true;
    wake();
  });
  // Whoever reads on gets the error from `run` below.
  run.catch(() => {});
  try {
    for (;;) {
      for (let event = events.shift(); event; event = events.shift()) yield event;
      if (isDone) return await run;
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (isDone || events.length > 0) resolve();
      });
    }
  } finally {
    controller.abort(0);
    await run.catch((error) => {
      if (!(error instanceof StoppedError)) throw error;
    });
  }
}
