// Lists of ops that run again and again, recorded as a graph at the first run and launched from then on.
import type { Pointer } from './bindings.generated.ts';
import type { Device } from './device.ts';

/** Ops that can be run again and again; see `Device.program`. */
export interface Program {
  run(): void;
}

export class RecordedProgram implements Program {
  readonly #device: Device;
  readonly #enqueue: () => void;
  #graph: Pointer | undefined;

  constructor(device: Device, enqueue: () => void) {
    this.#device = device;
    this.#enqueue = enqueue;
  }

  run(): void {
    this.#graph ??= this.#record();
    this.#device.call('graphLaunch', { graph: this.#graph });
  }

  /** Frees the graph, after it has finished if it is running. The next run records again. */
  close(): void {
    const graph = this.#graph;
    this.#graph = undefined;
    if (graph !== undefined) this.#device.call('graphDestroy', { graph });
  }

  #record(): Pointer {
    const out = new BigUint64Array(1);
    this.#device.call('captureBegin', {});
    let failure: unknown;
    try {
      this.#enqueue();
    } catch (error) {
      failure = error;
    }
    try {
      this.#device.call('captureEnd', { graph: out });
    } catch (error) {
      // Ending a broken recording also fails; the first failure is the cause.
      throw failure ?? error;
    }
    const graph = out[0]!;
    if (failure === undefined) return graph;
    this.#device.call('graphDestroy', { graph });
    throw failure;
  }
}
