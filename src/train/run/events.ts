// Logs a run's events: to the run log, to TensorBoard, and to the program that called `train`.
import type { RunEvent } from '../../runs/schema.ts';
import type { TrainHooks } from './hooks.ts';
import type { RunFolder } from './run.ts';
import type { Throughput } from './throughput.ts';

export type Events = ReturnType<typeof eventsOf>;

export function eventsOf(folder: RunFolder, hooks: TrainHooks, throughput: Throughput) {
  const { log, scalars } = folder;
  let logFailed = false;
  const notice = (text: string): void => hooks.onNotice?.(text);
  const events = {
    saved: folder.resumed?.path,
    notice,
    log(event: RunEvent): void {
      if (event.event === 'checkpoint') {
        events.saved = event.path;
        if (event.ms !== undefined) throughput.saveSeconds = (event.ms - (event.waitedMs ?? 0)) / 1000;
      }
      const json = log.write(event);
      scalars?.add(event);
      const { failure } = log;
      if (failure && !logFailed) {
        notice(`${failure.message}; they stay in memory until the disk takes them, and training continues`);
      }
      if (!failure && logFailed) notice('the log can be written again and has every line');
      logFailed = failure !== undefined;
      hooks.onEvent?.(event, { json, remaining: throughput.remaining() });
    },
  };
  return events;
}
