// A device: one context of a native library and all that was allocated in it. Turns statuses into errors, owns memory,
// and runs a list of ops as a recorded graph where the device can record.
import { setImmediate, setTimeout } from 'node:timers/promises';
import { Gpt2Error, NativeError } from '../errors.ts';
import { type Bindings, GPT2_DTYPE, GPT2_STATUS, type Pointer } from './bindings.generated.ts';
import { DeviceBuffer, type ElementType, PinnedBuffer } from './buffer.ts';
import { type LibraryKind, loadLibrary } from './library.ts';

/** What a context computes in; see GPT2_DTYPE in cuda/gpt2.h for what each kind of tensor then holds. */
export type Dtype = 'fp32' | 'tf32' | 'bf16';

export interface DeviceOptions {
  /** Which library: the CPU's or the GPU's. */
  readonly kind: LibraryKind;
  /** Index of the GPU. Default 0. */
  readonly index?: number;
  /** Default fp32. */
  readonly dtype?: Dtype;
  /** CPU threads; 0, the default, takes all cores. */
  readonly threads?: number;
  /** Whether gradients will be summed over micro-batches (in bf16 they are then kept in fp32). Default false. */
  readonly accumulates?: boolean;
  /** False issues programs op by op even where they could be recorded and replayed; the results are the same bits. */
  readonly captures?: boolean;
}

/** What was opened, in the library's own words. */
export interface DeviceDescription {
  readonly library: LibraryKind;
  readonly device: string;
  readonly codePath: string;
  readonly threads: number;
  readonly canCapture: boolean;
  readonly dtypes: readonly Dtype[];
}

/** What joins ranks. */
export interface CommunicatorDescription {
  /** What goes between them is carried by the GPUs' copy engines, by NCCL, or over the loopback (the CPU library). */
  readonly carrier: 'copies' | 'nccl' | 'loopback';
  /** Rows of what `reduceScatter` gives: each rank's part, or 1, the sum. */
  readonly parts: number;
  /** The guarantee that copies are seen before the signal after them; "" if no copy engines are used. */
  readonly ordering: 'flushed' | 'nvlink' | '';
  /** Why NCCL carries where copy engines might; else "". */
  readonly reason: string;
}

type ContextFunction = {
  [K in keyof Bindings]: Parameters<Bindings[K]>[0] extends { context: Pointer | null } ? K : never;
}[keyof Bindings];
type ContextArguments<K extends ContextFunction> = Omit<Parameters<Bindings[K]>[0], 'context'>;

const dtypeCodes: Record<Dtype, number> = {
  fp32: GPT2_DTYPE.GPT2_FP32,
  tf32: GPT2_DTYPE.GPT2_TF32,
  bf16: GPT2_DTYPE.GPT2_BF16,
};

/** What the gradients of matrices are stored in: sums over micro-batches would lose too much in bf16. */
export const gradientTypeOf = (dtype: Dtype, accumulates: boolean): ElementType =>
  dtype === 'bf16' && !accumulates ? 'bf16' : 'fp32';

/** A library's text without the function's name, which NativeError puts before it. */
const ownText = (symbol: string, text: string): string => text.replace(`${symbol}: `, '');

/** What to do where a device does not open; the library's text names what a variable can be. */
const mendOf = (detail: string): string =>
  detail.includes('GPT2_KERNELS')
    ? 'correct or unset GPT2_KERNELS'
    : 'name another --device or --dtype, or see `npm run gpt2 -- doctor`';

const statusName = (status: number): string =>
  Object.entries(GPT2_STATUS).find(([, value]) => value === status)?.[0] ?? `status ${status}`;

/** Ops that can be run again and again. */
export interface Program {
  run(): void;
}

export class Device {
  readonly description: DeviceDescription;
  readonly dtype: Dtype;
  /** What weights, activations and their gradients are stored in. */
  readonly elementType: ElementType;
  /** What the gradients of matrices are stored in. */
  readonly gradientType: ElementType;
  /** Whether programs are recorded once and replayed, and work goes on while the host does. */
  readonly captures: boolean;
  readonly #bindings: Bindings;
  readonly #owned = new Set<{ close(): void }>();
  readonly #programs: { close(): void }[] = [];
  #context: Pointer | undefined;
  #event: Pointer | undefined;
  #workspace: DeviceBuffer | undefined;
  #failed = false;
  #observer: ((name: string, args: object) => void) | undefined;

  /**
   * Opens a device; close it with `close()` or `using`.
   * @throws Gpt2Error if the library is missing, NativeError if the device cannot do what is asked
   */
  static open(options: DeviceOptions): Device {
    return new Device(options);
  }

  private constructor({
    kind,
    index = 0,
    dtype = 'fp32',
    threads = 0,
    accumulates = false,
    captures = true,
  }: DeviceOptions) {
    this.#bindings = loadLibrary(kind);
    const out = new BigUint64Array(1);
    const status = this.#bindings.contextCreate({
      context: out,
      device: index,
      dtype: dtypeCodes[dtype],
      threads,
      accumulates: accumulates ? 1 : 0,
    });
    const context = out[0]!;
    if (status !== GPT2_STATUS.GPT2_OK) {
      const detail =
        context === 0n ? 'out of memory' : ownText('gpt2_context_create', this.#bindings.lastError({ context }));
      if (context !== 0n) this.#bindings.contextDestroy({ context });
      throw new NativeError('gpt2_context_create', statusName(status), `${detail}; ${mendOf(detail)}`);
    }
    this.#context = context;
    this.dtype = dtype;
    this.elementType = dtype === 'bf16' ? 'bf16' : 'fp32';
    this.gradientType = gradientTypeOf(dtype, accumulates);
    this.description = JSON.parse(this.#bindings.contextDescription({ context })) as DeviceDescription;
    this.captures = captures && this.description.canCapture;
  }

  /**
   * Calls a function of the library in this context, arguments by name.
   * @throws NativeError with the library's own text if the status is not GPT2_OK; Gpt2Error after close
   */
  call<K extends ContextFunction>(name: K, args: ContextArguments<K>): void {
    if (this.#context === undefined) throw new Gpt2Error(`${name}: the device is closed`);
    const native = this.#bindings[name] as (args: object) => number;
    const status = native({ context: this.#context, ...args });
    if (status === GPT2_STATUS.GPT2_OK) {
      const observer = this.#observer;
      this.#observer = undefined;
      observer?.(name, args);
      this.#observer = observer;
      return;
    }
    if (status === GPT2_STATUS.GPT2_DEVICE_ERROR) this.#failed = true;
    const detail = this.#bindings.lastError({ context: this.#context });
    const symbol = `gpt2_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}`;
    throw new NativeError(symbol, statusName(status), ownText(symbol, detail));
  }

  /** While `issue` goes on, tells `observer` of every call that succeeded, with its arguments; not of the observer's own. */
  async observed<R>(observer: (name: string, args: object) => void, issue: () => Promise<R>): Promise<R> {
    this.#observer = observer;
    try {
      return await issue();
    } finally {
      this.#observer = undefined;
    }
  }

  /** What a `*_scratch` function says its op needs, in bytes. */
  scratch<K extends ContextFunction>(name: K, sizes: Omit<ContextArguments<K>, 'bytes'>): number {
    const bytes = new BigInt64Array(1);
    this.call(name, { ...sizes, bytes } as unknown as ContextArguments<K>);
    return Number(bytes[0]);
  }

  /** Zeroed device memory that lives until it or the device is closed. */
  allocate(bytes: number, name: string): DeviceBuffer {
    const buffer = new DeviceBuffer(this, bytes, name, () => this.#owned.delete(buffer));
    this.#owned.add(buffer);
    return buffer;
  }

  /** Zeroed host memory for asynchronous copies; it closes with the device. */
  allocatePinned(bytes: number): PinnedBuffer {
    const buffer = new PinnedBuffer(this, bytes);
    this.#owned.add(buffer);
    return buffer;
  }

  /** What a communicator of this device is, in the library's own words. */
  describeCommunicator(communicator: Pointer): CommunicatorDescription {
    return JSON.parse(this.#bindings.communicatorDescription({ communicator })) as CommunicatorDescription;
  }

  /** Has something closed with the device, before what is older; asked again, before what has come since. */
  own(resource: { close(): void }): void {
    this.#owned.delete(resource);
    this.#owned.add(resource);
  }

  /** Bytes of device memory that are free, and in all. */
  memory(): { available: number; total: number } {
    const [available, total] = [new BigInt64Array(1), new BigInt64Array(1)];
    this.call('memoryInfo', { available, total });
    return { available: Number(available[0]), total: Number(total[0]) };
  }

  /**
   * Grows the workspace, from which ops take their scratch memory, to at least `bytes`.
   * @throws NativeError if there is no memory for it; ops that need one then throw until it is reserved
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

  /** Bytes of device memory held, by the name they were allocated under. */
  get allocated(): ReadonlyMap<string, number> {
    const sizes = new Map<string, number>();
    for (const owned of this.#owned) {
      if (owned instanceof DeviceBuffer) sizes.set(owned.name, (sizes.get(owned.name) ?? 0) + owned.bytes);
    }
    return sizes;
  }

  /**
   * Makes a list of ops that can be run again and again. Where the device can capture, `issue` is called once and its
   * graph replayed; elsewhere `issue` is called at every run. So `issue` must do nothing but issue ops, the same each time.
   */
  program(issue: () => void): Program {
    if (!this.captures) return { run: issue };
    let graph: Pointer | undefined;
    const program = {
      run: () => {
        graph ??= this.#capture(issue);
        this.call('graphLaunch', { graph });
      },
      close: () => {
        const dropped = graph;
        graph = undefined;
        if (dropped !== undefined) this.call('graphDestroy', { graph: dropped });
      },
    };
    this.#owned.add(program);
    this.#programs.push(program);
    return program;
  }

  /** Frees what programs have recorded, one that is running when it is done; the next run records anew. Throws nothing. */
  dropGraphs(): void {
    for (const program of this.#programs) {
      try {
        program.close();
      } catch (error) {
        if (!(error instanceof NativeError)) throw error;
      }
    }
  }

  /** Whether a call of its driver has failed, after which none may return. */
  get hasFailed(): boolean {
    return this.#failed;
  }

  #capture(issue: () => void): Pointer {
    const graph = new BigUint64Array(1);
    this.call('captureBegin', {});
    let failure: unknown;
    try {
      issue();
    } catch (error) {
      failure = error;
    }
    try {
      this.call('captureEnd', { graph });
    } catch (error) {
      // A recording that broke off cannot be ended; why it did is what matters.
      throw failure ?? error;
    }
    if (failure) {
      this.call('graphDestroy', { graph: graph[0]! });
      throw failure;
    }
    return graph[0]!;
  }

  /** Waits until everything issued so far has finished, without blocking the event loop. */
  async finished(): Promise<void> {
    this.#event ??= this.createEvent();
    this.record(this.#event);
    await this.reached(this.#event);
  }

  /** A point in the order of issued work; it closes with the device. */
  createEvent(): Pointer {
    const out = new BigUint64Array(1);
    this.call('eventCreate', { event: out });
    const event = out[0]!;
    this.own({ close: () => this.call('eventDestroy', { event }) });
    return event;
  }

  /** Puts an event behind everything issued so far. */
  record(event: Pointer): void {
    this.call('eventRecord', { event });
  }

  /** Puts what is issued next behind a recorded event. */
  behind(event: Pointer): void {
    this.call('eventWait', { event });
  }

  /** Waits until all work before a recorded event has finished. The event loop goes on; it looks every millisecond. */
  async reached(event: Pointer): Promise<void> {
    // A turn even if the event was reached long ago: on a device that is synchronous, or faster than the host, a loop over
    // steps would else never let signals and timers through.
    await setImmediate();
    const reached = new Int32Array(1);
    for (;;) {
      this.call('eventQuery', { event, reached });
      if (reached[0] === 1) return;
      await setTimeout(1);
    }
  }

  /** Milliseconds between two events that were reached. On the CPU wall time, on a GPU its own. */
  elapsed(from: Pointer, to: Pointer): number {
    const milliseconds = new Float32Array(1);
    this.call('eventElapsed', { milliseconds, from, to });
    return milliseconds[0]!;
  }

  /**
   * Closes what was allocated in it, newest first, then the device. Closing twice is nothing. Of a device that has failed
   * nothing can be freed any more: that is no news to who closes it.
   */
  close(): void {
    if (this.#context === undefined) return;
    for (const owned of [...this.#owned].reverse()) {
      try {
        owned.close();
      } catch (error) {
        if (!this.#failed) throw error;
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
