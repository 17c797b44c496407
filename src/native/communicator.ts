// What joins the ranks of a job: processes that train together, each with a device of its own. The ops over it are in
// src/ops/collectives.ts; who the ranks are and how they find each other is left to src/ranks.
import { Gpt2Error, NativeError } from '../errors.ts';
import { GPT2_COMMUNICATOR, type Pointer } from './bindings.generated.ts';
import { bytesOf, type DeviceBuffer, type ElementType, elementCount, Tensor } from './buffer.ts';
import type { CommunicatorDescription, Device } from './device.ts';

/** What memory that ranks share is a multiple of, in bytes: CUDA maps no less into another process. */
const sharedGranule = 2 ** 21;

/** Bytes to allocate for `bytes` that ranks share. */
export const sharedBytes = (bytes: number): number => Math.ceil(bytes / sharedGranule) * sharedGranule;

/** Allocates a tensor that the other ranks may write to. All ranks call it in the same order, with the same. */
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

export interface CommunicatorOptions {
  /** As `communicatorId` of rank 0 made it. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly ranks: number;
  /** How long to wait for another rank wherever the host does: here, in `share` and `close`, and on the CPU in each collective. */
  readonly timeoutMilliseconds: number;
}

/**
 * What tells one communicator from another: rank 0 makes it, and every rank is given it.
 * @param isOneMachine whether all ranks are on this one: then they meet on its loopback
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

  /** Returns when all ranks are there; closes with its device. @throws NativeError if one does not come */
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

  /** Rows of what `reduceScatter` gives. */
  get parts(): number {
    return this.description.parts;
  }

  /** For the ops. @throws NativeError after close */
  get handle(): Pointer {
    if (this.#handle === undefined) {
      throw new NativeError('gpt2_communicator', 'GPT2_RANK_ERROR', 'the communicator is closed: a rank has ended');
    }
    return this.#handle;
  }

  /**
   * Lets the other ranks write to memory of `sharedBytes`, as the `out` of `reduceScatter` and `allGather` has to be. All
   * ranks call it, before anything with a collective is recorded, and `unshare` before they close the memory while the
   * communicator is open.
   */
  share(buffer: DeviceBuffer): void {
    const { pointer: memory, bytes } = buffer;
    this.device.call('communicatorShare', { communicator: this.handle, memory, bytes });
    this.#shared.add(buffer);
    // Nobody may free what another has mapped: it closes before.
    this.device.own(this);
  }

  unshare(buffer: DeviceBuffer): void {
    this.device.call('communicatorUnshare', { communicator: this.handle, memory: buffer.pointer });
    this.#shared.delete(buffer);
  }

  /**
   * Checks, after `device.reached`, that earlier collectives' results may be used: abandoned ones end without a result.
   * @throws NativeError if a collective has failed, or the communicator was abandoned or closed
   */
  check(): void {
    this.device.call('communicatorCheck', { communicator: this.handle });
  }

  /** Of ranks that are done, all close it, and wait for the others. Closing twice is nothing. */
  close(): void {
    if (this.device.hasFailed) this.abandon();
    else this.#destroy(0);
  }

  /** Closes it though collectives may be waiting for a rank that is gone: they end without a result. Throws nothing. */
  abandon(): void {
    // One that has not heard of it may still write there.
    for (const buffer of this.#shared) buffer.leave();
    try {
      this.#destroy(1);
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
    }
    // NCCL waits for the graphs that it is part of; who frees one that is under way waits for what is in it, which ends now.
    this.device.dropGraphs();
  }

  #destroy(abandon: 0 | 1): void {
    if (this.#handle === undefined) return;
    const communicator = this.#handle;
    this.#handle = undefined;
    this.device.call('communicatorDestroy', { communicator, abandon });
  }
}
