// A context of a native library: its options, its description, and calls of library functions, which throw if the status is not
// GPT2_OK. The subclass in device.ts adds memory, events and programs.
import { wholeVariable } from '../base/checks/given.ts';
import { Gpt2Error, NativeError } from '../base/errors.ts';
import { type Bindings, GPT2_DTYPE, GPT2_STATUS, type Pointer, signatures } from './bindings.generated.ts';
import type { ElementType } from './element-types.ts';
import { type LibraryKind, libraryFix } from './find-library.ts';

/** How the ranks (processes, one per device) of a communicator exchange data. */
export interface CommunicatorDescription {
  /** The means of transfer: the GPUs' copy engines, NCCL, or loopback connections between processes on CPUs. */
  readonly carrier: 'copies' | 'nccl' | 'loopback';
  /** Rows of `reduceScatter`'s output: one per rank, which the caller adds, or 1 row that is already the sum over ranks. */
  readonly parts: number;
  /** How a copy between GPUs is made to arrive before the signal that follows the copy; "" if `carrier` is not 'copies'. */
  readonly ordering: 'flushed' | 'nvlink' | '';
  /** If all ranks are on one machine: why NCCL is used instead of the GPUs' copy engines. Else "". */
  readonly reason: string;
}

export const dtypes = ['fp32', 'tf32', 'bf16', 'fp8'] as const;
/** The precision of a context. For each, GPT2_DTYPE in cuda/gpt2.h lists the types of weights, gradients and other tensors. */
export type Dtype = (typeof dtypes)[number];

export interface DeviceOptions {
  /** The CPU library or the CUDA library. */
  readonly kind: LibraryKind;
  /** Index of the GPU. Default 0. */
  readonly index?: number | undefined;
  /** Precision of the device's ops. Default fp32. */
  readonly dtype?: Dtype | undefined;
  /** Number of CPU threads. Default 0: the environment variable GPT2_THREADS, else all cores. */
  readonly threads?: number | undefined;
  /** Whether gradients are summed over micro-batches; a GPU in bf16 or fp8 then stores matrix gradients in fp32. Default false. */
  readonly accumulates?: boolean | undefined;
  /** Whether programs are recorded as CUDA graphs; false enqueues them op by op, with the same bits. Default true. */
  readonly graphs?: boolean | undefined;
}

/** An open device, as its native library describes it. */
export interface DeviceDescription {
  readonly library: LibraryKind;
  readonly device: string;
  readonly codePath: string;
  /** On a CPU: why no faster code path is in use ("amx: this CPU has no AMX"); "" for the fastest, or if GPT2_KERNELS names the path. */
  readonly faster?: string;
  readonly threads: number;
  readonly canCapture: boolean;
  readonly dtypes: readonly Dtype[];
  /** Compute capability of a GPU: "9.0". Absent for a CPU. */
  readonly computeCapability?: string;
}

type ContextFunction = {
  [K in keyof Bindings]: Parameters<Bindings[K]>[0] extends { context: Pointer | null } ? K : never;
}[keyof Bindings];
/** Calls of library functions, in order. A call is the name of a function, and its arguments by name. */
export type Calls = readonly (readonly [name: string, args: object])[];
type ContextArguments<K extends ContextFunction> = Omit<Parameters<Bindings[K]>[0], 'context'>;

export type RealType = ElementType & ('fp32' | 'bf16');

/**
 * `elementType`: the type of weights, activations and gradients of activations. `gradientType`: the type of the gradients of weight
 * matrices; fp32 if these gradients are summed over micro-batches, because the sums would lose too much precision in bf16.
 * On a CPU both types are fp32, and the dtypes bf16 and fp8 are the precision of matmuls' operands.
 */
export function elementTypesOf({ kind, dtype = 'fp32', accumulates = false }: DeviceOptions) {
  const isBf16 = kind === 'cuda' && (dtype === 'bf16' || dtype === 'fp8');
  return { elementType: realType(isBf16), gradientType: realType(isBf16 && !accumulates) };
}

const realType = (isBf16: boolean): RealType => (isBf16 ? 'bf16' : 'fp32');

export class Context {
  readonly description: DeviceDescription;
  readonly dtype: Dtype;
  readonly elementType: RealType;
  readonly gradientType: RealType;
  /** Whether a call of the GPU's driver has failed. After that, calls may never return. */
  hasFailed = false;
  readonly #bindings: Bindings;
  #context: Pointer | undefined;
  #observer: ((name: string, args: object) => void) | undefined;

  /**
   * @param bindings functions of the library, or the stand-ins of absent-device.ts, which compute nothing
   * @throws NativeError if the device or the dtype is not supported
   */
  constructor(options: DeviceOptions, bindings: Bindings) {
    const { kind, index = 0, dtype = 'fp32', threads = 0, accumulates = false } = options;
    this.#bindings = bindings;
    const out = new BigUint64Array(1);
    const status = this.#bindings.contextCreate({
      context: out,
      device: index,
      dtype: GPT2_DTYPE[`GPT2_${dtype.toUpperCase() as Uppercase<Dtype>}`],
      threads: threads || (process.env.GPT2_THREADS ? wholeVariable(process.env, 'GPT2_THREADS', 1, 1024) : 0),
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
  }

  /**
   * Calls a function of the library in this context, with arguments by name.
   * @throws NativeError with the library's text if the function does not return GPT2_OK; Gpt2Error if the context is closed
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
    const description = this.#bindings.contextDescription({ context: this.#context });
    const { failedRank } = JSON.parse(description) as { failedRank?: number };
    throw failure(signatures[name].symbol, status, detail, failedRank);
  }

  /** Runs `enqueue`, and reports each of its successful calls to `observer`. Calls that the observer makes are not reported. */
  async observed<R>(observer: (name: string, args: object) => void, enqueue: () => Promise<R>): Promise<R> {
    this.#observer = observer;
    try {
      return await enqueue();
    } finally {
      this.#observer = undefined;
    }
  }

  /** Runs `enqueue`, and returns its successful calls of the library. */
  protected callsOf(enqueue: () => void): Calls {
    const calls: (readonly [string, object])[] = [];
    const observer = this.#observer;
    this.#observer = (name, args) => {
      calls.push([name, args]);
      observer?.(name, args);
    };
    try {
      enqueue();
    } finally {
      this.#observer = observer;
    }
    return calls;
  }

  describeCommunicator(communicator: Pointer): CommunicatorDescription {
    return JSON.parse(this.#bindings.communicatorDescription({ communicator })) as CommunicatorDescription;
  }

  /** JSON with the kernels of a loaded module, as the library describes them. */
  describeModule(module: Pointer): string {
    return this.#bindings.moduleDescription({ module });
  }

  /** Destroys the context, and frees everything allocated in it. */
  protected destroy(): void {
    const context = this.#context;
    this.#context = undefined;
    if (context !== undefined) this.#bindings.contextDestroy({ context });
  }
}

/** @param text from `gpt2_last_error`. The function's name at the start of the text is removed, because NativeError adds the name */
function failure(symbol: string, status: number, text: string, failedRank?: number): NativeError {
  const name = Object.entries(GPT2_STATUS).find(([, value]) => value === status)?.[0] ?? `status ${status}`;
  return new NativeError(symbol, name, text.replace(`${symbol}: `, '') || name, failedRank);
}
