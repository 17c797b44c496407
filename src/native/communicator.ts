// What joins the ranks of a job: processes that train together, each with a device of its own. The ops over it are in
// src/ops/collectives.ts; who the ranks are and how they find each other is left to src/ranks.
import { Gpt2Error } from '../errors.ts';
import { GPT2_COMMUNICATOR, type Pointer } from './bindings.generated.ts';
import type { Device } from './device.ts';

export interface CommunicatorOptions {
  /** As `communicatorId` of rank 0 made it. */
  readonly id: Uint8Array;
  readonly rank: number;
  readonly ranks: number;
  /** How long to wait for another rank: here, and on the CPU in each collective. */
  readonly timeoutMilliseconds: number;
}

/** What tells one communicator from another: rank 0 makes it, and every rank is given it. */
export function communicatorId(device: Device): Uint8Array {
  const id = new Uint8Array(GPT2_COMMUNICATOR.GPT2_COMMUNICATOR_ID_SIZE);
  device.call('communicatorId', { id });
  return id;
}

export class Communicator {
  readonly device: Device;
  readonly rank: number;
  readonly ranks: number;
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
    device.own(this);
  }

  /** For the ops. @throws Gpt2Error after close */
  get handle(): Pointer {
    if (this.#handle === undefined) throw new Gpt2Error('the ranks have parted: their communicator is closed');
    return this.#handle;
  }

  /** @throws NativeError if a collective that is under way on the device has failed */
  check(): void {
    this.device.call('communicatorCheck', { communicator: this.handle });
  }

  /** Of ranks that are done, all close it: NCCL waits for the others. Closing twice is nothing. */
  close(): void {
    if (this.device.hasFailed) this.abandon();
    else this.#destroy(0);
  }

  /** Closes it though collectives may be waiting for a rank that is gone: they end without a result. Throws nothing. */
  abandon(): void {
    try {
      this.#destroy(1);
    } catch (error) {
      if (!(error instanceof Gpt2Error)) throw error;
    }
    // NCCL waits for the graphs that it is part of, and who frees one that is under way may wait for what is in it.
    this.device.dropGraphs();
  }

  #destroy(abandon: 0 | 1): void {
    if (this.#handle === undefined) return;
    const communicator = this.#handle;
    this.#handle = undefined;
    this.device.call('communicatorDestroy', { communicator, abandon });
  }
}
