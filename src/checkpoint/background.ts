// Writes checkpoints on a thread of its own (background-thread.ts) while training goes on: the device copies its state into
// page-locked memory behind what was issued before, and the thread writes from there. What a checkpoint is, is write.ts's.
import type { Worker } from 'node:worker_threads';
import { Gpt2Error, NativeError } from '../errors.ts';
import { arenaSizes, type ParameterCopy, parameterBytes } from '../model/arena.ts';
import type { ModelConfig } from '../model/config.ts';
import { gib, hostMemory } from '../model/memory.ts';
import type { Model } from '../model/model.ts';
import type { Pointer } from '../native/bindings.generated.ts';
import { bytesOf, type PinnedBuffer } from '../native/buffer.ts';
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

/** Bytes of host memory that a copy of a model's state takes. */
export const stateCopyBytes = (config: ModelConfig): number => 3 * parameterBytes(config, 'fp32', 'fp32');

export class BackgroundWriter {
  readonly #model: Model;
  readonly #copies: Readonly<Record<StateCopy, ParameterCopy>>;
  readonly #event: Pointer;
  #memory: PinnedBuffer | undefined;
  #worker: Worker | undefined;
  #isClosed = false;
  #answered: { resolve(result: SaveResult): void; reject(error: Gpt2Error): void } | undefined;

  constructor(model: Model, { m, v }: Moments) {
    this.#model = model;
    this.#copies = { weights: model.masters, m, v };
    this.#event = model.device.createEvent();
  }

  /** Bytes of host memory that a copy takes. */
  get copyBytes(): number {
    return stateCopyBytes(this.#model.config);
  }

  /**
   * Nothing is refused where memory is promised and not there: the system ends the program that touches too much of it.
   * @throws NativeError as if it were, if there is too little host memory for a copy
   */
  checkMemory(): void {
    const { available } = hostMemory();
    if (this.copyBytes <= available) return;
    throw new NativeError(
      'gpt2_allocate_pinned',
      'GPT2_OUT_OF_MEMORY',
      `a save of what ranks share takes ${gib(this.copyBytes)} of host memory, ${gib(available)} are free; end what else runs here, or give --zero 0, which can save without`,
    );
  }

  /**
   * Makes the memory and the thread that a save needs while training goes on, so that the first is no slower than others.
   * @throws NativeError if there is too little host memory for a copy
   */
  prepare(): void {
    if (!this.#memory) {
      this.checkMemory();
      this.#memory = this.#model.device.allocatePinned(this.copyBytes);
    }
    this.#thread();
  }

  /**
   * Writes the state after all that was issued so far. Returns at once, and what is issued from now on may change the state;
   * unless `inPlace`, for which nothing may until it is written: the CPU's memory is then read where it is. One at a time.
   * @throws NativeError as `prepare`. The promise rejects with WriterError, or with NativeError if another rank ended before it
   *   sent its part: nothing is written then
   */
  write(head: CheckpointHead, keeping: Keeping | undefined, { inPlace }: { inPlace: boolean }): Promise<SaveResult> {
    const { device, config } = this.#model;
    const isHere = inPlace && device.description.library === 'cpu' && !this.#model.sharing;
    const addresses = isHere ? this.#inPlace() : this.#copy();
    device.record(this.#event);
    return device.reached(this.#event).then(() => {
      // Abandoned collectives leave incomplete data, which must not be saved.
      this.#model.sharing?.communicator.check();
      return this.#ask({ head, config, addresses, keeping });
    });
  }

  /** Gives rank 0, which writes it, this rank's part of the state. */
  give(): void {
    if (!this.#model.sharing) return;
    for (const copy of Object.values(this.#copies)) for (const _ of copy.parts());
  }

  #inPlace(): StateAddresses {
    const of = ({ matrices, vectors }: ParameterCopy) => ({ matrix: matrices.pointer, vector: vectors.pointer });
    const { weights, m, v } = this.#copies;
    return { weights: of(weights), m: of(m), v: of(v) };
  }

  #copy(): StateAddresses {
    this.prepare();
    const { device, config } = this.#model;
    const sizes = arenaSizes(config);
    let next = 0;
    const take = (count: number): bigint => {
      const address = this.#memory!.at(next);
      next += count * bytesOf('fp32');
      return address;
    };
    const copyOf = (copy: ParameterCopy) => {
      const addresses = { matrix: take(sizes.matrix), vector: take(sizes.vector) };
      for (const { kind, start, tensor } of copy.parts()) {
        const pinned = addresses[kind] + BigInt(start * bytesOf('fp32'));
        device.call('copyToHostAsync', { pinned, source: tensor.pointer, bytes: tensor.bytes });
      }
      return addresses;
    };
    const { weights, m, v } = this.#copies;
    return { weights: copyOf(weights), m: copyOf(m), v: copyOf(v) };
  }

  #thread(): Worker {
    if (this.#worker) return this.#worker;
    // A thread started now would read memory that is freed with the device.
    if (this.#isClosed) throw new Gpt2Error('the checkpoint writer is closed');
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

  /** Ends the thread for good. No write may be in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
    this.#worker = undefined;
  }
}
