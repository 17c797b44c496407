// Encodes chunks concurrently on threads (encode-thread.ts). To bound memory, each thread has at most one chunk that it encodes
// and one that waits. The result does not depend on which thread gets which chunk.
import type { Worker } from 'node:worker_threads';
import { Gpt2Error } from '../../../base/errors.ts';
import { startThread } from '../../../native/start-thread.ts';
import type { Chunk, Encoding } from './format.ts';

/** The threads' input. */
export interface Task {
  readonly encoding: Encoding;
  /** The content of tokenizer.json, if the tokenizer is not built in. */
  readonly tokenizerFile?: string;
  /** The path of tokenizer.json, for messages. */
  readonly tokenizerPath?: string;
  /** The folder of the parts; undefined: the threads only collect the characters of the text. */
  readonly folder: string | undefined;
}

export interface Order {
  readonly chunk: Chunk;
  readonly key: Uint8Array;
}

interface Thread {
  readonly worker: Worker;
  /** Callbacks of the thread's orders, the oldest first. */
  readonly waiting: (() => void)[];
}

export interface Answer {
  /** The chunk's memory, returned for reuse. */
  readonly memory: ArrayBuffer;
  /** The code points of the chunk's text, if the task is to collect them. */
  readonly characters?: Iterable<number>;
  /** The error message, if the order failed. */
  readonly refusal?: string;
}

const chunksEach = 2;
/** MiB of a thread's heap for short-lived objects; by default up to 48. */
const youngGeneration = 8;

export class ThreadPool {
  /** Memory of encoded chunks, to reuse. */
  readonly spare: ArrayBuffer[] = [];
  /** Code points that the threads have collected. */
  readonly characters = new Set<number>();
  readonly #task: Task;
  readonly #most: number;
  readonly #threads: Thread[] = [];
  #fault: Error | undefined;
  #wake: () => void = () => {};

  constructor(task: Task, threads: number) {
    this.#task = task;
    this.#most = threads;
  }

  /** Transfers a chunk and its memory to a thread, once one has room; `onDone` is called when it is encoded. @throws Gpt2Error, also for an earlier chunk */
  async run(order: Order, onDone: () => void): Promise<void> {
    let thread = this.#free();
    while (!thread) {
      await this.#answer();
      thread = this.#free();
    }
    thread.waiting.push(onDone);
    thread.worker.postMessage(order, [order.chunk.bytes.buffer]);
  }

  /** Waits until all chunks are encoded. @throws Gpt2Error */
  async finish(): Promise<void> {
    while (this.#threads.some(({ waiting }) => waiting.length > 0)) await this.#answer();
    if (this.#fault) throw this.#fault;
  }

  async close(): Promise<void> {
    await Promise.all(this.#threads.map(({ worker }) => worker.terminate()));
  }

  #free() {
    if (this.#fault) throw this.#fault;
    const [least] = this.#threads.toSorted((a, b) => a.waiting.length - b.waiting.length);
    if (least?.waiting.length === 0) return least;
    if (this.#threads.length < this.#most) return this.#start();
    return least!.waiting.length < chunksEach ? least : undefined;
  }

  #answer(): Promise<void> {
    if (this.#fault) throw this.#fault;
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #start() {
    const worker = startThread('./encode-thread', import.meta.url, {
      workerData: this.#task,
      resourceLimits: { maxYoungGenerationSizeMb: youngGeneration },
    });
    const thread: Thread = { worker, waiting: [] };
    worker.on('message', ({ memory, characters = [], refusal }: Answer) => {
      const onDone = thread.waiting.shift()!;
      for (const codePoint of characters) this.characters.add(codePoint);
      this.spare.push(memory);
      if (refusal === undefined) onDone();
      else this.#fault ??= new Gpt2Error(refusal);
      this.#wake();
    });
    worker.on('error', (cause) => {
      this.#fault ??= new Gpt2Error(`a thread that encodes text failed: ${cause.message}`, { cause });
      this.#wake();
    });
    this.#threads.push(thread);
    return thread;
  }
}
