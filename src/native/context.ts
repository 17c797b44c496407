// A context of a native library: its options, its description, and calls, whose statuses become errors. device.ts adds
// everything that is allocated in it.
import { wholeVariable } from '../base/checks/environment.ts';
import { Gpt2Error, NativeError } from '../base/errors.ts';
import { type Bindings, GPT2_DTYPE, GPT2_STATUS, type Pointer, signatures } from './bindings.generated.ts';
import type { ElementType } from './element-types.ts';
import { type LibraryKind, libraryFix } from './find-library.ts';

/** How the ranks of a communicator exchange data. */
export interface CommunicatorDescription {
  /** The GPUs' copy engines, NCCL, or the loopback of the CPU library. */
  readonly carrier: 'copies' | 'nccl' | 'loopback';
  /** Rows of `reduceScatter`'s output: one per rank, or 1, their sum. */
  readonly parts: number;
  /** The reason that a copy arrives before the signal enqueued after it; "" without copy engines. */
  readonly ordering: 'flushed' | 'nvlink' | '';
  /** Why NCCL is used although copy engines might work; else "". */
  readonly reason: string;
}

export const dtypes = ['fp32', 'tf32', 'bf16', 'fp8'] as const;
/** The precision of a context; GPT2_DTYPE in cuda/gpt2.h gives the type of each kind of tensor. */
export type Dtype = (typeof dtypes)[number];

export interface DeviceOptions {
  /** The CPU library or the CUDA library. */
  readonly kind: LibraryKind;
  /** Index of the GPU. Default 0. */
  readonly index?: number | undefined;
  /** Default fp32. */
  readonly dtype?: Dtype | undefined;
  /** CPU threads. Default 0: as many as the environment variable GPT2_THREADS says, else all cores. */
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
  /** On a CPU: what its fastest code path lacks ("amx: this CPU has no AMX"); "" if that path runs or GPT2_KERNELS is set. */
  readonly faster?: string;
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

export type RealType = ElementType & ('fp32' | 'bf16');

/**
 * `elementType`: the type of weights, activations and their gradients. `gradientType`: the type of matrix gradients, fp32 if they
 * accumulate, because sums over micro-batches would lose too much precision in bf16.
 * On a CPU both are fp32; there bf16 and FP8 are the precision of the products' operands.
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
  /** Whether a call of the driver has failed; later calls may never return. */
  hasFailed = false;
  readonly #bindings: Bindings;
  #context: Pointer | undefined;
  #observer: ((name: string, args: object) => void) | undefined;

  /**
   * @param bindings functions of the library, or stand-ins (absent-device.ts)
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
    const description = this.#bindings.contextDescription({ context: this.#context });
    const { failedRank } = JSON.parse(description) as { failedRank?: number };
    throw failure(signatures[name].symbol, status, detail, failedRank);
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

  /** The library's description of a communicator of this device. */
  describeCommunicator(communicator: Pointer): CommunicatorDescription {
    return JSON.parse(this.#bindings.communicatorDescription({ communicator })) as CommunicatorDescription;
  }

  /** The library's description of a module's kernels, as JSON. */
  describeModule(module: Pointer): string {
    return this.#bindings.moduleDescription({ module });
  }

  /** Ends the context, and everything allocated in it. */
  protected destroy(): void {
    const context = this.#context;
    this.#context = undefined;
    if (context !== undefined) this.#bindings.contextDestroy({ context });
  }
}

/** @param text from `gpt2_last_error`; it begins with the function's name, which NativeError adds itself */
function failure(symbol: string, status: number, text: string, failedRank?: number): NativeError {
  const name = Object.entries(GPT2_STATUS).find(([, value]) => value === status)?.[0] ?? `status ${status}`;
  return new NativeError(symbol, name, text.replace(`${symbol}: `, '') || name, failedRank);
}
