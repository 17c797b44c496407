// Connects the ranks of a job: processes that train one model together, one per device. src/ops/collectives.ts has the collectives;
// src/ranks launches the ranks.
import { attempt, NativeError } from '../base/errors.ts';
import { GPT2_COMMUNICATOR, type Pointer } from './bindings.generated.ts';
import type { CommunicatorDescription } from './context.ts';
import type { Device, DeviceBuffer } from './device.ts';
import { bytesOf, type ElementType, elementCount } from './element-types.ts';
import { Tensor } from './tensor.ts';

/** The size of memory that ranks share must be a multiple of 2 MiB, the unit in which CUDA maps memory into another process. */
const sharedGranule = 2 ** 21;

/** The bytes to allocate so that `bytes` bytes can be shared between ranks: a multiple of 2 MiB. */
export const sharedBytes = (bytes: number): number => Math.ceil(bytes / sharedGranule) * sharedGranule;

/** Allocates a tensor to which other ranks may write. All ranks must make the same calls in the same order. */
export function allocateShared(
  communicator: Communicator,
  name: string,
  type: ElementType,
  shape: readonly number[],
): Tensor {
  const count = elementCount(shape);
  const buffer = communicator.device.allocate(sharedBytes(count * bytesOf(type)), name);
  communicator.share(buffer);
  return new Tensor(buffer, name, type, shape);
}

interface CommunicatorOptions {
  /** The identity that rank 0 made with `communicatorId`, equal on all ranks. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly ranks: number;
  /** The longest wait for another rank, in the constructor, `share` and `close`; with the CPU library also in each collective. */
  readonly timeoutMilliseconds: number;
}

/**
 * Makes the identity of a communicator. Rank 0 calls this function, and sends the identity to every rank.
 * @param isOneMachine whether all ranks run on this machine; they then connect over the loopback interface
 */
export function communicatorId(device: Device, isOneMachine: boolean): Uint8Array {
  const id = new Uint8Array(GPT2_COMMUNICATOR.GPT2_COMMUNICATOR_ID_SIZE);
  device.call('communicatorId', { id, isOneMachine: isOneMachine ? 1 : 0 });
  return id;
}

export class Communicator {
  readonly device: Device;
  readonly rank: number;
  readonly ranks: number;
  readonly description: CommunicatorDescription;
  readonly #shared = new Set<DeviceBuffer>();
  #handle: Pointer | undefined;

  /** Waits until all ranks have joined. The communicator closes with `device`. @throws NativeError if a rank does not join */
  constructor(device: Device, { id, rank, ranks, timeoutMilliseconds }: CommunicatorOptions) {
    if (id.length !== GPT2_COMMUNICATOR.GPT2_COMMUNICATOR_ID_SIZE) throw new RangeError(`an id of ${id.length} bytes`);
    const communicator = new BigUint64Array(1);
    device.call('communicatorCreate', { communicator, id, rank, ranks, timeoutMilliseconds });
    this.#handle = communicator[0]!;
    this.device = device;
    this.rank = rank;
    this.ranks = ranks;
    this.description = device.describeCommunicator(communicator[0]!);
    device.own(this);
  }

  /** Rows of `reduceScatter`'s output: one per rank, which the caller adds, or 1 row that is already the sum over ranks. */
  get parts(): number {
    return this.description.parts;
  }

  /** The handle that native functions take. @throws NativeError after close */
  get handle(): Pointer {
    if (this.#handle === undefined) {
      throw new NativeError('gpt2_communicator', 'GPT2_RANK_ERROR', 'the communicator is closed: a rank has ended');
    }
    return this.#handle;
  }

  /**
   * Lets other ranks write to a buffer: the `out` of `reduceScatter` or `allGather`, with a size from `sharedBytes`. All ranks call
   * `share` before they record a collective. To close the buffer earlier than the communicator, all ranks first call `unshare`.
   */
  share(buffer: DeviceBuffer): void {
    const { pointer: memory, bytes } = buffer;
    this.device.call('communicatorShare', { communicator: this.handle, memory, bytes });
    this.#shared.add(buffer);
    // Makes the communicator close before the buffer, because no rank may free memory that another rank has mapped.
    this.device.own(this);
  }

  unshare(buffer: DeviceBuffer): void {
    this.device.call('communicatorUnshare', { communicator: this.handle, memory: buffer.pointer });
    this.#shared.delete(buffer);
  }

  /**
   * Checks that all collectives before the last `device.reached` have results. An abandoned collective ends without a result.
   * @throws NativeError if a collective has failed, or the communicator was abandoned or closed
   */
  check(): void {
    this.device.call('communicatorCheck', { communicator: this.handle });
  }

  /** Waits until all ranks close the communicator, then closes it. A second call does nothing. */
  close(): void {
    if (this.device.hasFailed) this.abandon();
    else this.#destroy(0);
  }

  /** Closes the communicator after a rank has ended: collectives that wait for that rank end without a result. Throws nothing. */
  abandon(): void {
    // Keeps the shared memory: a rank that has not yet noticed the failure may still write to it.
    for (const buffer of this.#shared) buffer.leave();
    attempt(() => this.#destroy(1));
    // NCCL cannot end while graphs contain its collectives. Freeing a running graph waits for its collectives, which end when abandoned.
    this.device.dropGraphs();
  }

  #destroy(abandon: 0 | 1): void {
    if (this.#handle === undefined) return;
    const communicator = this.#handle;
    this.#handle = undefined;
    this.device.call('communicatorDestroy', { communicator, abandon });
  }
}
