// A device: a context of a native library with the memory, events and recorded programs that are freed when the device closes.
import { setImmediate, setTimeout } from 'node:timers/promises';
import { checkGiven, whole } from '../base/checks/given.ts';
import { attempt, orElse } from '../base/errors.ts';
import type { Bindings, Pointer } from './bindings.generated.ts';
import { type Calls, Context, type DeviceOptions, dtypes } from './context.ts';
import { DeviceBuffer, PinnedBuffer } from './device-memory.ts';
import { loadLibrary } from './library.ts';

export { type DeviceDescription, type DeviceOptions, type Dtype, dtypes, elementTypesOf } from './context.ts';
export { DeviceBuffer, type PinnedBuffer } from './device-memory.ts';

/** Ops that can be run repeatedly; `Device.program` makes them. */
export interface Program {
  run(): void;
}

const optionKinds = {
  ...{ index: whole(0, 2 ** 31 - 1), dtype: dtypes, threads: whole(0, 1024) },
  ...({ accumulates: 'switch', graphs: 'switch' } as const),
};

/**
 * A GPU or the CPU, with everything allocated on it.
 * @example
 * using device = Device.open({ kind: 'cpu', threads: 2 });
 * console.log(device.description.codePath, device.memory().available);
 */
export class Device extends Context {
  /** Whether `program` records ops as a CUDA graph, which runs while the host continues. */
  readonly graphs: boolean;
  readonly #owned = new Set<{ close(): void }>();
  #event: Pointer | undefined;
  #workspace: DeviceBuffer | undefined;

  /**
   * Opens a device; close it with `close()` or `using`.
   * @throws Gpt2Error if the library is missing; NativeError if the device or the dtype is not supported
   */
  static open(options: DeviceOptions): Device {
    checkGiven(options, { kind: ['cpu', 'cuda'] }, optionKinds);
    return new Device(options, loadLibrary(options.kind));
  }

  /** To open a device, call `Device.open` instead. */
  constructor(options: DeviceOptions, bindings: Bindings) {
    super(options, bindings);
    this.graphs = (options.graphs ?? true) && this.description.canCapture;
  }

  /** Allocates zeroed device memory, which is freed when the buffer or the device is closed. */
  allocate(bytes: number, name: string): DeviceBuffer {
    const buffer = new DeviceBuffer(this, bytes, name, () => this.#owned.delete(buffer));
    this.#owned.add(buffer);
    return buffer;
  }

  /** Allocates zeroed page-locked host memory for asynchronous copies. The memory is freed when the device is closed. */
  allocatePinned(bytes: number): PinnedBuffer {
    const buffer = new PinnedBuffer(this, bytes);
    this.#owned.add(buffer);
    return buffer;
  }

  /** Makes `close` close `resource` too. Resources are closed in the reverse order of their last calls of `own`. */
  own(resource: { close(): void }): void {
    this.#owned.delete(resource);
    this.#owned.add(resource);
  }

  memory(): { available: number; total: number } {
    const [available, total] = [new BigInt64Array(1), new BigInt64Array(1)];
    this.call('memoryInfo', { available, total });
    return { available: Number(available[0]), total: Number(total[0]) };
  }

  /**
   * Grows the workspace, the scratch memory that all ops share, to at least `bytes`.
   * @throws NativeError if there is not enough memory; ops that need a workspace then throw until a later call succeeds
   */
  reserveWorkspace(bytes: number): void {
    if (bytes <= (this.#workspace?.bytes ?? 0)) return;
    // Recorded graphs contain the address of the old workspace.
    this.dropGraphs();
    this.call('setWorkspace', { workspace: 0n, bytes: 0 });
    this.#workspace?.close();
    this.#workspace = undefined;
    const workspace = this.allocate(bytes, 'workspace');
    this.call('setWorkspace', { workspace: workspace.pointer, bytes });
    this.#workspace = workspace;
  }

  /** Bytes of device memory that are allocated now, by the name that was passed to `allocate`. */
  get allocated(): ReadonlyMap<string, number> {
    const sizes = new Map<string, number>();
    for (const owned of this.#owned) {
      if (owned instanceof DeviceBuffer) sizes.set(owned.name, (sizes.get(owned.name) ?? 0) + owned.bytes);
    }
    return sizes;
  }

  /**
   * Makes a program of the ops that `enqueue` enqueues, which must be the same at each call. With graphs, the first run records
   * the ops as a CUDA graph, and each run launches the graph. On a CPU, later runs repeat the first run's calls of the library.
   * Every run calls `enqueue` on a GPU without graphs, and also on a CPU if one of the calls reads or writes host memory.
   */
  program(enqueue: () => void): Program {
    if (!this.graphs && this.description.canCapture) return { run: enqueue };
    const program = this.graphs ? recordedProgram(this, enqueue) : repeatedCalls(this, () => this.callsOf(enqueue));
    this.#owned.add(program);
    return program;
  }

  /** Frees the recordings of all programs; the next run of a program records again. Throws nothing. */
  dropGraphs(): void {
    for (const program of this.#owned) {
      if ('run' in program) attempt(() => program.close());
    }
  }

  /** Resolves when everything enqueued so far has finished. Does not block the event loop. */
  async finished(): Promise<void> {
    this.#event ??= this.createEvent();
    this.record(this.#event);
    await this.reached(this.#event);
  }

  /** Creates an event, which marks a point in the order of enqueued work. The event is freed with the device. */
  createEvent(): Pointer {
    const out = new BigUint64Array(1);
    this.call('eventCreate', { event: out });
    const event = out[0]!;
    this.own({ close: () => this.call('eventDestroy', { event }) });
    return event;
  }

  /** Records an event: from now on, the event marks the point after everything enqueued so far. */
  record(event: Pointer): void {
    this.call('eventRecord', { event });
  }

  /** Makes everything enqueued from now on wait for a recorded event. */
  startAfter(event: Pointer): void {
    this.call('eventWait', { event });
  }

  /** Resolves when all work enqueued before a recorded event has finished. Polls every millisecond, without blocking the event loop. */
  async reached(event: Pointer): Promise<void> {
    // Yields to the event loop even if the event was reached. Otherwise, on a device that is synchronous or faster than the
    // host, a loop over steps would never let handlers of signals and timers run.
    await setImmediate();
    const reached = new Int32Array(1);
    for (;;) {
      this.call('eventQuery', { event, reached });
      if (reached[0] === 1) return;
      await setTimeout(1);
    }
  }

  /** Milliseconds between two reached events, measured by the wall clock for a CPU and by the GPU's clock for a GPU. */
  elapsed(from: Pointer, to: Pointer): number {
    const milliseconds = new Float32Array(1);
    this.call('eventElapsed', { milliseconds, from, to });
    return milliseconds[0]!;
  }

  /**
   * Closes everything allocated on the device, newest first, then the device. A second call does nothing. If the device has
   * failed, errors are ignored, because a failed device cannot free memory.
   */
  close(): void {
    for (const owned of [...this.#owned].reverse()) {
      try {
        owned.close();
      } catch (error) {
        if (!this.hasFailed) throw error;
      }
    }
    this.#owned.clear();
    this.destroy();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

function recordedProgram(device: Device, enqueue: () => void) {
  let graph: Pointer | undefined;
  return {
    run(): void {
      graph ??= record(device, enqueue);
      device.call('graphLaunch', { graph });
    },
    /** Frees the graph; a graph that is running finishes first. The next run records again. */
    close(): void {
      const recorded = graph;
      graph = undefined;
      if (recorded !== undefined) device.call('graphDestroy', { graph: recorded });
    },
  };
}

function record(device: Device, enqueue: () => void): Pointer {
  const graph = new BigUint64Array(1);
  const end = () => device.call('captureEnd', { graph });
  device.call('captureBegin', {});
  try {
    enqueue();
  } catch (error) {
    // Frees the incomplete graph. If ending the recording fails too, only the first failure is thrown.
    orElse(undefined, () => {
      end();
      device.call('graphDestroy', { graph: graph[0]! });
    });
    throw error;
  }
  end();
  return graph[0]!;
}

/** A program on a CPU that repeats calls without new checks: checks of 100 ops take a fifth of the time of a small model's step. */
function repeatedCalls(device: Device, recordCalls: () => Calls) {
  let calls: Calls | undefined;
  return {
    run(): void {
      if (calls) {
        for (const [name, args] of calls) device.call(name as 'fillZero', args as never);
        return;
      }
      const recorded = recordCalls();
      if (!recorded.some(([, args]) => Object.values(args).some(ArrayBuffer.isView))) calls = recorded;
    },
    close(): void {
      calls = undefined;
    },
  };
}
