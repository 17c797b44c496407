// A device: one context of a native library, and everything that ends with it: memory, events, recorded programs.
import { setImmediate, setTimeout } from 'node:timers/promises';
import { checkGiven, whole } from '../base/checks/given.ts';
import { attempt } from '../base/errors.ts';
import type { Bindings, Pointer } from './bindings.generated.ts';
import { type Calls, Context, type DeviceOptions, dtypes } from './context.ts';
import { DeviceBuffer, PinnedBuffer } from './device-memory.ts';
import { loadLibrary } from './library.ts';

export { type DeviceDescription, type DeviceOptions, type Dtype, dtypes, elementTypesOf } from './context.ts';
export { DeviceBuffer, type PinnedBuffer } from './device-memory.ts';

/** Ops that can be run again and again; see `Device.program`. */
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
  /** Whether programs are recorded as graphs, and run while the host continues. */
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

  /** Use `open`. */
  constructor(options: DeviceOptions, bindings: Bindings) {
    super(options, bindings);
    this.graphs = (options.graphs ?? true) && this.description.canCapture;
  }

  /** Allocates zeroed device memory; it lives until it or the device is closed. */
  allocate(bytes: number, name: string): DeviceBuffer {
    const buffer = new DeviceBuffer(this, bytes, name, () => this.#owned.delete(buffer));
    this.#owned.add(buffer);
    return buffer;
  }

  /** Allocates zeroed page-locked host memory for asynchronous copies; it closes with the device. */
  allocatePinned(bytes: number): PinnedBuffer {
    const buffer = new PinnedBuffer(this, bytes);
    this.#owned.add(buffer);
    return buffer;
  }

  /** Closes `resource` with the device, newest first. A second call makes it the newest. */
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
   * Grows the workspace, the scratch memory of ops, to at least `bytes`.
   * @throws NativeError if there is not enough memory; ops that need a workspace then throw until it is reserved
   */
  reserveWorkspace(bytes: number): void {
    if (bytes <= (this.#workspace?.bytes ?? 0)) return;
    // Graphs hold the old workspace's address.
    this.dropGraphs();
    this.call('setWorkspace', { workspace: 0n, bytes: 0 });
    this.#workspace?.close();
    this.#workspace = undefined;
    const workspace = this.allocate(bytes, 'workspace');
    this.call('setWorkspace', { workspace: workspace.pointer, bytes });
    this.#workspace = workspace;
  }

  /** Allocated bytes of device memory, by the name that `allocate` received. */
  get allocated(): ReadonlyMap<string, number> {
    const sizes = new Map<string, number>();
    for (const owned of this.#owned) {
      if (owned instanceof DeviceBuffer) sizes.set(owned.name, (sizes.get(owned.name) ?? 0) + owned.bytes);
    }
    return sizes;
  }

  /**
   * Makes a list of ops that can run again and again. A device with graphs calls `enqueue` once, and launches its ops as a
   * recorded graph at every run. A CPU calls `enqueue` at the first run, and then only the functions of the library that it
   * called, unless one of them had memory of the host, such as the result of a read; then, and on a GPU without graphs, every
   * run calls `enqueue`. It must enqueue the same ops each time.
   */
  program(enqueue: () => void): Program {
    if (!this.graphs && this.description.canCapture) return { run: enqueue };
    const program = this.graphs ? recordedProgram(this, enqueue) : repeatedCalls(this, () => this.callsOf(enqueue));
    this.#owned.add(program);
    return program;
  }

  /** Frees what all programs have recorded; the next run of each records again. Throws nothing. */
  dropGraphs(): void {
    for (const program of this.#owned) {
      if ('run' in program) attempt(() => program.close());
    }
  }

  /** Waits until everything enqueued so far has finished, without blocking the event loop. */
  async finished(): Promise<void> {
    this.#event ??= this.createEvent();
    this.record(this.#event);
    await this.reached(this.#event);
  }

  /** Creates an event, which marks a point in the order of enqueued work; it closes with the device. */
  createEvent(): Pointer {
    const out = new BigUint64Array(1);
    this.call('eventCreate', { event: out });
    const event = out[0]!;
    this.own({ close: () => this.call('eventDestroy', { event }) });
    return event;
  }

  /** Records an event after everything enqueued so far. */
  record(event: Pointer): void {
    this.call('eventRecord', { event });
  }

  /** Makes everything enqueued from now on wait for a recorded event. */
  startAfter(event: Pointer): void {
    this.call('eventWait', { event });
  }

  /** Waits until all work before a recorded event has finished. It polls every millisecond and does not block the event loop. */
  async reached(event: Pointer): Promise<void> {
    // Yields even if the event was reached: on a synchronous device, or one that is faster than the host, a loop over steps
    // would never let signals and timers run.
    await setImmediate();
    const reached = new Int32Array(1);
    for (;;) {
      this.call('eventQuery', { event, reached });
      if (reached[0] === 1) return;
      await setTimeout(1);
    }
  }

  /** Milliseconds between two reached events, by the wall clock on the CPU and by the GPU's clock on a GPU. */
  elapsed(from: Pointer, to: Pointer): number {
    const milliseconds = new Float32Array(1);
    this.call('eventElapsed', { milliseconds, from, to });
    return milliseconds[0]!;
  }

  /**
   * Closes everything allocated on the device, newest first, then the device; a second call does nothing. Errors of a failed
   * device are ignored, because it can free nothing.
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
    /** Frees the graph, after it has finished if it is running. The next run records again. */
    close(): void {
      const recorded = graph;
      graph = undefined;
      if (recorded !== undefined) device.call('graphDestroy', { graph: recorded });
    },
  };
}

function record(device: Device, enqueue: () => void): Pointer {
  const out = new BigUint64Array(1);
  device.call('captureBegin', {});
  let failure: unknown;
  try {
    enqueue();
  } catch (error) {
    failure = error;
  }
  try {
    device.call('captureEnd', { graph: out });
  } catch (error) {
    // Ending a broken recording also fails; the first failure is the cause.
    throw failure ?? error;
  }
  const graph = out[0]!;
  if (failure === undefined) return graph;
  device.call('graphDestroy', { graph });
  throw failure;
}

/** A program of a CPU: checking the arguments of 100 ops takes as long as a fifth of a small model's step. */
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
