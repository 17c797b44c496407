// Writes checkpoints on a thread of its own (background-thread.ts) while training goes on: the device copies its state into
// page-locked memory behind what was issued before, and the thread writes from there. What a checkpoint is, is write.ts's.
import type { Worker } from 'node:worker_threads';
import { Gpt2Error } from '../errors.ts';
import type { ModelConfig } from '../model/config.ts';
import type { Model } from '../model/model.ts';
import type { ParameterArena } from '../model/parameters.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import type { PinnedBuffer, Tensor } from '../native/buffer.ts';
import { startThread } from '../native/start-thread.ts';
import type { CheckpointHead, Keeping, Moments, SaveResult, StateCopy } from './write.ts';

/** Addresses in the memory of this process. */
export type StateAddresses = Readonly<Record<StateCopy, { readonly matrix: bigint; readonly vector: bigint }>>;

/** What the thread is asked. */
export interface WriteRequest {
  readonly head: CheckpointHead;
  readonly config: ModelConfig;
  readonly addresses: StateAddresses;
  readonly keeping: Keeping | undefined;
}

/** The thread itself failed, not what it was asked to do; the next save gets another. */
export class WriterError extends Gpt2Error {
  override readonly name = 'WriterError';
}

export class BackgroundWriter {
  readonly #model: Model;
  readonly #arenas: Readonly<Record<StateCopy, ParameterArena>>;
  readonly #event: Pointer;
  #memory: PinnedBuffer | undefined;
  #worker: Worker | undefined;
  #answered: { resolve(result: SaveResult): void; reject(error: Gpt2Error): void } | undefined;

  constructor(model: Model, { m, v }: Moments) {
    this.#model = model;
    this.#arenas = { weights: model.masters, m, v };
    this.#event = model.device.createEvent();
  }

  /** Bytes of host memory that a copy takes. */
  get copyBytes(): number {
    return this.#tensors.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Makes the memory and the thread that a save needs while training goes on, so that the first is no slower than others.
   * @throws NativeError if there is too little host memory for a copy
   */
  prepare(): void {
    this.#memory ??= this.#model.device.allocatePinned(this.copyBytes);
    this.#thread();
  }

  /**
   * Writes the state after all that was issued so far. Returns at once, and what is issued from now on may change the state;
   * unless `inPlace`, for which nothing may until it is written: the CPU's memory is then read where it is. One at a time.
   * @throws NativeError as `prepare`; WriterError, by the promise
   */
  write(head: CheckpointHead, keeping: Keeping | undefined, { inPlace }: { inPlace: boolean }): Promise<SaveResult> {
    const { device, config } = this.#model;
    const isHere = inPlace && device.description.library === 'cpu';
    const addresses = isHere ? this.#addresses(({ pointer }) => pointer) : this.#copy();
    device.record(this.#event);
    return device.reached(this.#event).then(() => this.#ask({ head, config, addresses, keeping }));
  }

  #copy(): StateAddresses {
    this.prepare();
    let next = 0;
    return this.#addresses(({ device, pointer, bytes }) => {
      const pinned = this.#memory!.at(next);
      next += bytes;
      device.call('copyToHostAsync', { pinned, source: pointer, bytes });
      return pinned;
    });
  }

  #addresses(addressOf: (tensor: Tensor) => bigint): StateAddresses {
    const of = ({ matrices, vectors }: ParameterArena) => ({ matrix: addressOf(matrices), vector: addressOf(vectors) });
    const { weights, m, v } = this.#arenas;
    return { weights: of(weights), m: of(m), v: of(v) };
  }

  get #tensors(): Tensor[] {
    return Object.values(this.#arenas).flatMap(({ matrices, vectors }) => [matrices, vectors]);
  }

  #thread(): Worker {
    if (this.#worker) return this.#worker;
    const worker = startThread('./background-thread', import.meta.url);
    // It keeps the program alive only while it writes.
    worker.unref();
    worker.on('message', (result: SaveResult) => this.#answered?.resolve(result));
    // What it did not answer itself: a defect of ours, or no memory left.
    worker.on('error', (cause) => {
      this.#worker = undefined;
      this.#answered?.reject(new WriterError(`the thread that writes checkpoints failed: ${cause.message}`, { cause }));
    });
    this.#worker = worker;
    return worker;
  }

  async #ask(request: WriteRequest): Promise<SaveResult> {
    const worker = this.#thread();
    worker.ref();
    try {
      return await new Promise((resolve, reject) => {
        this.#answered = { resolve, reject };
        worker.postMessage(request);
      });
    } finally {
      this.#answered = undefined;
      worker.unref();
    }
  }

  /** Ends the thread. Nothing may be being written. */
  async close(): Promise<void> {
    await this.#worker?.terminate();
    this.#worker = undefined;
  }
}
