// A device: one context of a native library, and everything allocated in it: memory, events, recorded programs. Calls turn
// statuses into errors. One file, because all of this ends with the context.
import { setImmediate, setTimeout } from 'node:timers/promises';
import { checkGiven } from '../base/checks/given.ts';
import { whole } from '../base/checks/number.ts';
import { Gpt2Error, NativeError } from '../base/errors.ts';
import { type Bindings, GPT2_DTYPE, GPT2_STATUS, type Pointer } from './bindings.generated.ts';
import type { ElementType } from './element-types.ts';
import { type LibraryKind, libraryFix } from './find-library.ts';
import { viewMemory } from './koffi.ts';
import { loadLibrary } from './library.ts';

/** How the ranks of a communicator exchange data. */
export interface CommunicatorDescription {
  /** The GPUs' copy engines, NCCL, or the loopback of the CPU library. */
  readonly carrier: 'copies' | 'nccl' | 'loopback';
  /** Rows of `reduceScatter`'s output: one per rank, or 1, their sum. */
  readonly parts: number;
  /** Why copies arrive before the signal after them; "" without copy engines. */
  readonly ordering: 'flushed' | 'nvlink' | '';
  /** Why NCCL is used although copy engines might work; else "". */
  readonly reason: string;
}

/** Ops that can be run again and again; see `Device.program`. */
export interface Program {
  run(): void;
}

export const dtypes = ['fp32', 'tf32', 'bf16', 'fp8'] as const;
const optionKinds = {
  ...{ index: whole(0, 2 ** 31 - 1), dtype: dtypes, threads: whole(0, 1024) },
  ...({ accumulates: 'switch', graphs: 'switch' } as const),
};
/** The precision of a context; GPT2_DTYPE in cuda/gpt2.h gives the type of each kind of tensor. */
export type Dtype = (typeof dtypes)[number];

export interface DeviceOptions {
  /** The CPU library or the CUDA library. */
  readonly kind: LibraryKind;
  /** Index of the GPU. Default 0. */
  readonly index?: number | undefined;
  /** Default fp32. */
  readonly dtype?: Dtype | undefined;
  /** CPU threads. Default 0: all cores. */
  readonly threads?: number | undefined;
  /** Whether gradients are summed over micro-batches; in bf16 they are then stored in fp32. Default false. */
  readonly accumulates?: boolean | undefined;
  /** False enqueues programs op by op instead of recording them as graphs: the same bits. Default true. */
  readonly graphs?: boolean | undefined;
}

/** The library's description of an open device. */
export interface DeviceDescription {
  readonly library: LibraryKind;
  readonly device: string;
  readonly codePath: string;
  readonly threads: number;
  readonly canCapture: boolean;
  readonly dtypes: readonly Dtype[];
  /** "9.0"; absent for a CPU. */
  readonly computeCapability?: string;
}

type ContextFunction = {
  [K in keyof Bindings]: Parameters<Bindings[K]>[0] extends { context: Pointer | null } ? K : never;
}[keyof Bindings];
type ContextArguments<K extends ContextFunction> = Omit<Parameters<Bindings[K]>[0], 'context'>;

/** A type of weights, activations and gradients. */
export type RealType = ElementType & ('fp32' | 'bf16');

/**
 * The types of weights, activations and their gradients (`elementType`), and of matrix gradients: sums over micro-batches would lose
 * too much precision in bf16.
 */
export function elementTypesOf({ kind, dtype = 'fp32', accumulates = false }: DeviceOptions) {
  const isBf16 = dtype === 'bf16' || (dtype === 'fp8' && kind === 'cuda');
  return { elementType: realType(isBf16), gradientType: realType(isBf16 && !accumulates) };
}

const realType = (isBf16: boolean): RealType => (isBf16 ? 'bf16' : 'fp32');

/**
 * A GPU or the CPU, with everything allocated on it.
 * @example
 * using device = Device.open({ kind: 'cpu', threads: 2 });
 * console.log(device.description.codePath, device.memory().available);
 */
export class Device {
  readonly description: DeviceDescription;
  readonly dtype: Dtype;
  /** Type of weights, activations and their gradients. */
  readonly elementType: RealType;
  /** Type of matrix gradients. */
  readonly gradientType: RealType;
  /** Whether programs are recorded as graphs, and run while the host continues. */
  readonly graphs: boolean;
  /** Whether a call of the driver has failed; later calls may never return. */
  hasFailed = false;
  readonly #bindings: Bindings;
  readonly #owned = new Set<{ close(): void }>();
  #context: Pointer | undefined;
  #event: Pointer | undefined;
  #workspace: DeviceBuffer | undefined;
  #observer: ((name: string, args: object) => void) | undefined;

  /**
   * Opens a device; close it with `close()` or `using`.
   * @throws Gpt2Error if the library is missing; NativeError if the device or the dtype is not supported
   */
  static open(options: DeviceOptions): Device {
    checkGiven(options, { kind: ['cpu', 'cuda'] }, optionKinds);
    return new Device(options, loadLibrary(options.kind));
  }

  /** Use `open`. @param bindings functions of the library, or stand-ins (absent-device.ts) */
  constructor(options: DeviceOptions, bindings: Bindings) {
    const { kind, index = 0, dtype = 'fp32', threads = 0, accumulates = false, graphs = true } = options;
    this.#bindings = bindings;
    const out = new BigUint64Array(1);
    const status = this.#bindings.contextCreate({
      context: out,
      device: index,
      dtype: GPT2_DTYPE[`GPT2_${dtype.toUpperCase() as Uppercase<Dtype>}`],
      threads,
      accumulates: accumulates ? 1 : 0,
    });
    const context = out[0]!;
    if (status !== GPT2_STATUS.GPT2_OK) {
      const detail = context === 0n ? 'out of memory' : this.#bindings.lastError({ context });
      if (context !== 0n) this.#bindings.contextDestroy({ context });
      const path = process.env.GPT2_KERNELS ? 'correct or unset GPT2_KERNELS, ' : '';
      const isUnsupported = kind === 'cuda' && status === GPT2_STATUS.GPT2_UNSUPPORTED;
      const build = isUnsupported ? `${libraryFix(kind)} if the library was built for other GPUs, ` : '';
      const advice = `${path}choose another device or dtype, ${build}or see \`npm run gpt2 -- doctor\``;
      throw failure('gpt2_context_create', status, detail).with({ where: undefined, advice });
    }
    this.#context = context;
    this.dtype = dtype;
    ({ elementType: this.elementType, gradientType: this.gradientType } = elementTypesOf(options));
    this.description = JSON.parse(this.#bindings.contextDescription({ context })) as DeviceDescription;
    this.graphs = graphs && this.description.canCapture;
  }

  /**
   * Calls a function of the library in this context, arguments by name.
   * @throws NativeError with the library's text if the status is not GPT2_OK; Gpt2Error after close
   */
  call<K extends ContextFunction>(name: K, args: ContextArguments<K>): void {
    if (this.#context === undefined) throw new Gpt2Error(`${name}: the device is closed`);
    const native = this.#bindings[name] as (args: object) => number;
    const status = native({ context: this.#context, ...args });
    if (status === GPT2_STATUS.GPT2_OK) {
      const observer = this.#observer;
      this.#observer = undefined;
      try {
        observer?.(name, args);
      } finally {
        this.#observer = observer;
      }
      return;
    }
    if (status === GPT2_STATUS.GPT2_DEVICE_ERROR) this.hasFailed = true;
    const detail = this.#bindings.lastError({ context: this.#context });
    const symbol = `gpt2_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
    const description = this.#bindings.contextDescription({ context: this.#context });
    throw failure(symbol, status, detail, (JSON.parse(description) as { failedRank?: number }).failedRank);
  }

  /** Passes every successful call that `enqueue` makes to `observer`, with its arguments; not the observer's own calls. */
  async observed<R>(observer: (name: string, args: object) => void, enqueue: () => Promise<R>): Promise<R> {
    this.#observer = observer;
    try {
      return await enqueue();
    } finally {
      this.#observer = undefined;
    }
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

  /** The library's description of a communicator of this device. */
  describeCommunicator(communicator: Pointer): CommunicatorDescription {
    return JSON.parse(this.#bindings.communicatorDescription({ communicator })) as CommunicatorDescription;
  }

  /** The library's description of a module's kernels, as JSON. */
  describeModule(module: Pointer): string {
    return this.#bindings.moduleDescription({ module });
  }

  /** Closes `resource` with the device, newest first. A second call makes it the newest. */
  own(resource: { close(): void }): void {
    this.#owned.delete(resource);
    this.#owned.add(resource);
  }

  /** Free and total bytes of device memory. */
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
   * recorded graph at every run; other devices call `enqueue` at every run. `enqueue` must only enqueue ops, the same each time.
   */
  program(enqueue: () => void): Program {
    if (!this.graphs) return { run: enqueue };
    const program = new RecordedProgram(this, enqueue);
    this.#owned.add(program);
    return program;
  }

  /** Frees the graphs of all programs; the next run of each records again. Throws nothing. */
  dropGraphs(): void {
    for (const program of this.#owned) {
      if (!(program instanceof RecordedProgram)) continue;
      try {
        program.close();
      } catch (error) {
        if (!(error instanceof NativeError)) throw error;
      }
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
    if (this.#context === undefined) return;
    for (const owned of [...this.#owned].reverse()) {
      try {
        owned.close();
      } catch (error) {
        if (!this.hasFailed) throw error;
      }
    }
    this.#owned.clear();
    const context = this.#context;
    this.#context = undefined;
    this.#bindings.contextDestroy({ context });
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** @param text from `gpt2_last_error`; it begins with the function's name, which NativeError adds itself */
function failure(symbol: string, status: number, text: string, failedRank?: number): NativeError {
  const name = Object.entries(GPT2_STATUS).find(([, value]) => value === status)?.[0] ?? `status ${status}`;
  return new NativeError(symbol, name, text.replace(`${symbol}: `, '') || name, failedRank);
}

/** Device memory. Any use after `close()` throws. */
export class DeviceBuffer {
  readonly device: Device;
  readonly bytes: number;
  readonly name: string;
  readonly #onClose: () => void;
  #pointer: Pointer | undefined;
  #isLeft = false;

  /** Use `Device.allocate`. */
  constructor(device: Device, bytes: number, name: string, onClose: () => void) {
    const memory = new BigUint64Array(1);
    device.call('allocate', { memory, bytes });
    this.device = device;
    this.bytes = bytes;
    this.name = name;
    this.#pointer = memory[0]!;
    this.#onClose = onClose;
  }

  get pointer(): Pointer {
    if (this.#pointer === undefined) throw new Gpt2Error(`the device memory "${this.name}" is closed`);
    return this.#pointer;
  }

  /** Makes `close()` keep the memory until the process ends, because another process may still write to it. */
  leave(): void {
    this.#isLeft = true;
  }

  close(): void {
    if (this.#pointer === undefined) return;
    const memory = this.#pointer;
    this.#pointer = undefined;
    if (!this.#isLeft) this.device.call('free', { memory });
    this.#onClose();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Page-locked host memory: the device copies from and to it while the program continues. Any use after `close()` throws. */
export class PinnedBuffer {
  readonly device: Device;
  readonly bytes: number;
  #pointer: Pointer | undefined;
  #view: ArrayBuffer | undefined;

  /** Use `Device.allocatePinned`. */
  constructor(device: Device, bytes: number) {
    const memory = new BigUint64Array(1);
    device.call('allocatePinned', { memory, bytes });
    this.device = device;
    this.bytes = bytes;
    this.#pointer = memory[0]!;
  }

  /** Address of byte `offset`. @throws Gpt2Error after close */
  at(offset: number): Pointer {
    if (this.#pointer === undefined) throw new Gpt2Error('the pinned memory is closed');
    return this.#pointer + BigInt(offset);
  }

  /**
   * A view of the memory. Node cannot detach it: get it at each use, and keep no view across an `await`.
   * @throws Gpt2Error after close
   */
  get memory(): ArrayBuffer {
    this.#view ??= viewMemory(this.at(0), this.bytes);
    return this.#view;
  }

  close(): void {
    if (this.#pointer === undefined) return;
    const memory = this.#pointer;
    this.#pointer = undefined;
    this.#view = undefined;
    this.device.call('freePinned', { memory });
  }
}

class RecordedProgram implements Program {
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
