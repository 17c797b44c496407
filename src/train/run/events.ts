// Logs a run's events: to the run log, to TensorBoard, and to the program that called `train`.
import type { RunEvent } from '../../runs/schema.ts';
import type { TrainHooks } from './hooks.ts';
import type { RunFolder } from './run.ts';
import type { Throughput } from './throughput.ts';

export class Events {
  saved: string | undefined;
  readonly #folder: RunFolder;
  readonly #hooks: TrainHooks;
  readonly #throughput: Throughput;
  #logFailed = false;

  constructor(folder: RunFolder, hooks: TrainHooks, throughput: Throughput) {
    this.#folder = folder;
    this.#hooks = hooks;
    this.#throughput = throughput;
    this.saved = folder.resumed?.path;
  }

  notice(text: string): void {
    this.#hooks.onNotice?.(text);
  }

  log(event: RunEvent): void {
    const { log, scalars } = this.#folder;
    if (event.event === 'checkpoint') {
      this.saved = event.path;
      if (event.ms !== undefined) this.#throughput.saveSeconds = event.ms / 1000;
    }
    const json = log.write(event);
    scalars?.add(event);
    const { failure } = log;
    if (failure && !this.#logFailed) {
      this.notice(`${failure.message}; they stay in memory until the disk takes them, and training continues`);
    }
    if (!failure && this.#logFailed) this.notice('the log can be written again and has every line');
    this.#logFailed = failure !== undefined;
    this.#hooks.onEvent?.(event, { json, remaining: this.#throughput.remaining() });
  }
}
