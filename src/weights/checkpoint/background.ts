// Writes checkpoints on a thread (background-thread.ts) while training continues: after all work enqueued so far, the device
// copies weights and optimizer state into page-locked memory, from which the thread writes. write.ts has the format.
import type { Worker } from 'node:worker_threads';
import { Gpt2Error, NativeError, words } from '../../base/errors.ts';
import type { ParameterCopy } from '../../model/arena.ts';
import type { ModelConfig } from '../../model/config.ts';
import { gib, hostMemory } from '../../model/memory.ts';
import type { Model } from '../../model/model.ts';
import type { Parameter, ParameterKind } from '../../model/parameters.ts';
import type { Pointer } from '../../native/bindings.generated.ts';
import type { PinnedBuffer } from '../../native/device.ts';
import { bytesOf } from '../../native/element-types.ts';
import { startThread } from '../../native/start-thread.ts';
import type { StateCopy } from '../../optimizer/state.ts';
import type { Keeping } from './prune.ts';
import { type CheckpointHead, copiesOf, type SaveResult } from './write.ts';

/** A copy of weights or of a row of optimizer state, in this process's memory. */
export interface CopyInMemory {
  readonly prefix: string;
  readonly parameters: readonly Parameter[];
  /** The address of each parameter, by name. */
  readonly addresses: ReadonlyMap<string, bigint>;
}

export interface WriteRequest {
  readonly head: CheckpointHead;
  readonly config: ModelConfig;
  /** Weights and rows of optimizer state, in the order of `copiesOf`. */
  readonly copies: readonly CopyInMemory[];
  readonly keeping: Keeping | undefined;
}

/** The thread that writes checkpoints has failed, not a write to the disk. The next save starts another thread. */
export class WriterError extends Gpt2Error {
  override readonly name = 'WriterError';
}

export class BackgroundWriter {
  /** Bytes of host memory for a copy: master weights and optimizer state. */
  readonly copyBytes: number;
  readonly #model: Model;
  readonly #copies: ReturnType<typeof copiesOf>;
  readonly #event: Pointer;
  #memory: PinnedBuffer | undefined;
  #worker: Worker | undefined;
  #isClosed = false;
  /** The last request; the memory of its copies is not reused before the next request. */
  #request: WriteRequest | undefined;
  #answered: { resolve(result: SaveResult): void; reject(error: Gpt2Error): void } | undefined;

  constructor(model: Model, optimizer: readonly StateCopy[]) {
    this.#model = model;
    this.#copies = copiesOf(model, optimizer);
    this.#event = model.device.createEvent();
    this.copyBytes = this.#copies
      .map(({ copy: { wholeLayout } }) => (wholeLayout.sizes.matrix + wholeLayout.sizes.vector) * bytesOf('fp32'))
      .reduce((sum, bytes) => sum + bytes, 0);
  }

  /**
   * Compares a copy's size with the free host memory, because Linux grants more than is free, and later kills the program.
   * @throws NativeError if there is too little host memory for a copy
   */
  checkMemory(): void {
    const { available } = hostMemory();
    if (this.copyBytes <= available) return;
    throw new NativeError(
      'gpt2_allocate_pinned',
      'GPT2_OUT_OF_MEMORY',
      words`saving the parts of all ranks needs ${gib(this.copyBytes)} of host memory, ${gib(available)} are free; free some, or give --zero 0, which saves without a copy`,
    );
  }

  /**
   * Allocates the memory and starts the thread, so that the first save is as fast as later ones.
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
   * Writes the state after all work enqueued so far. Returns at once; work enqueued later may change the state. With
   * `inPlace`, nothing may change the state until it is written, because the thread then reads the memory of the CPU device.
   * Only one write may run at a time.
   * @throws NativeError as `prepare`. The promise rejects with WriterError, or, with nothing written, with NativeError if another
   * rank ended before it sent its share of the state
   */
  write(head: CheckpointHead, keeping: Keeping | undefined, { inPlace }: { inPlace: boolean }): Promise<SaveResult> {
    const { device, config } = this.#model;
    const isHere = inPlace && device.description.library === 'cpu' && !this.#model.sharding;
    const copies = isHere ? this.#inPlace() : this.#copy();
    device.record(this.#event);
    return device.reached(this.#event).then(() => {
      // Aborted collectives leave incomplete data, which must not be saved.
      this.#model.sharding?.communicator.check();
      this.#request = { head, config, copies, keeping };
      return this.#ask(this.#request);
    });
  }

  /** Repeats the last `write`, after a disk error, from the copies that this `write` made in memory. */
  async again(): Promise<SaveResult> {
    return this.#ask(this.#request!);
  }

  /** Sends this rank's share of the state to rank 0, which writes it. */
  send(): void {
    if (!this.#model.sharding) return;
    for (const { copy } of this.#copies) for (const _ of copy.parts());
  }

  #inPlace(): CopyInMemory[] {
    return this.#copies.map(({ copy, ...named }) => {
      const arenas = { matrix: copy.matrices.pointer, vector: copy.vectors.pointer };
      return { ...named, addresses: addressesIn(copy, arenas, named.parameters) };
    });
  }

  #copy(): CopyInMemory[] {
    this.prepare();
    const { device } = this.#model;
    let next = 0;
    const take = (count: number): bigint => {
      const address = this.#memory!.at(next);
      next += count * bytesOf('fp32');
      return address;
    };
    return this.#copies.map(({ copy, ...named }) => {
      const { matrix, vector } = copy.wholeLayout.sizes;
      const arenas = { matrix: take(matrix), vector: take(vector) };
      for (const { kind, start, tensor } of copy.parts()) {
        const pinned = addressOf(arenas, kind, start);
        device.call('copyToHostAsync', { pinned, source: tensor.pointer, bytes: tensor.bytes });
      }
      return { ...named, addresses: addressesIn(copy, arenas, named.parameters) };
    });
  }

  #thread(): Worker {
    if (this.#worker) return this.#worker;
    // After `close`, a new thread would read memory that is freed with the device.
    if (this.#isClosed) throw new Gpt2Error('the checkpoint writer is closed');
    const worker = startThread('./background-thread', import.meta.url);
    // The thread keeps the program alive only while it writes.
    worker.unref();
    worker.on('message', (result: SaveResult) => this.#answered?.resolve(result));
    // The thread reports disk errors as messages, so this event means that there is a bug, or that no memory is left.
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

  /** Ends the thread; no other will be started. No write may be in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#worker?.terminate();
    this.#worker = undefined;
  }
}

type Arenas = Readonly<Record<ParameterKind, bigint>>;

const addressOf = (arenas: Arenas, kind: ParameterKind, start: number): bigint =>
  arenas[kind] + BigInt(start * bytesOf('fp32'));

/** The address of each parameter of a copy, from the addresses of the copy's two arenas, of matrices and of vectors. */
const addressesIn = ({ wholeLayout }: ParameterCopy, arenas: Arenas, parameters: readonly Parameter[]) =>
  new Map(parameters.map(({ name, kind }) => [name, addressOf(arenas, kind, wholeLayout.starts.get(name)!)]));
