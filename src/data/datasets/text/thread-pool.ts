// Encodes chunks concurrently on threads (encode-thread.ts). To bound memory, each thread has at most one chunk that it encodes
// and one that waits. The result does not depend on which thread gets which chunk.
import type { Worker } from 'node:worker_threads';
import { Gpt2Error } from '../../../base/errors.ts';
import { startThread } from '../../../native/start-thread.ts';
import type { Chunk, Encoding } from './format.ts';

export interface Task {
  readonly encoding: Encoding;
  /** The content of tokenizer.json, if the tokenizer is not built in. */
  readonly tokenizerFile?: string;
  /** The path of tokenizer.json, for messages. */
  readonly tokenizerPath?: string;
  /** The folder for part files; undefined: the threads write no files and only collect the set of distinct characters. */
  readonly folder: string | undefined;
}

export interface Order {
  readonly chunk: Chunk;
  readonly key: Uint8Array;
}

interface Thread {
  readonly worker: Worker;
  /** Callbacks for the chunks that the thread has received but not answered, the oldest first. */
  readonly waiting: (() => void)[];
}

export interface Answer {
  /** The chunk's memory, returned for reuse. */
  readonly memory: ArrayBuffer;
  /** The code points of the chunk's text, if the task is to collect them. */
  readonly characters?: Iterable<number>;
  readonly refusal?: string;
}

const chunksEach = 2;
/** MiB of a thread's heap for short-lived objects, to save memory: Node's default is up to 48. */
const youngGeneration = 8;

export function threadPool(workerData: Task, most: number) {
  const threads: Thread[] = [];
  let fault: Error | undefined;
  let wake: () => void = () => {};
  const spare: ArrayBuffer[] = [];
  const characters = new Set<number>();
  const answer = () =>
    new Promise<void>((resolve) => {
      if (fault) throw fault;
      wake = resolve;
    });
  const start = () => {
    const resourceLimits = { maxYoungGenerationSizeMb: youngGeneration };
    const worker = startThread('./encode-thread', import.meta.url, { workerData, resourceLimits });
    const thread: Thread = { worker, waiting: [] };
    worker.on('message', ({ memory, characters: found = [], refusal }: Answer) => {
      const onDone = thread.waiting.shift()!;
      for (const codePoint of found) characters.add(codePoint);
      spare.push(memory);
      if (refusal === undefined) onDone();
      else fault ??= new Gpt2Error(refusal);
      wake();
    });
    worker.on('error', (cause) => {
      fault ??= new Gpt2Error(`a thread that encodes text failed: ${cause.message}`, { cause });
      wake();
    });
    threads.push(thread);
    return thread;
  };
  const free = () => {
    if (fault) throw fault;
    const [least] = threads.toSorted((a, b) => a.waiting.length - b.waiting.length);
    if (least?.waiting.length === 0) return least;
    if (threads.length < most) return start();
    return least!.waiting.length < chunksEach ? least : undefined;
  };
  return {
    ...{ spare, characters },
    /** Sends a chunk to a thread with room. Calls `onDone` when the chunk is encoded. @throws Gpt2Error if an earlier chunk failed */
    async run(order: Order, onDone: () => void): Promise<void> {
      let thread = free();
      for (; !thread; thread = free()) await answer();
      thread.waiting.push(onDone);
      thread.worker.postMessage(order, [order.chunk.bytes.buffer]);
    },
    /** Waits until all chunks are encoded. @throws Gpt2Error if a chunk cannot be encoded */
    async finish(): Promise<void> {
      while (threads.some(({ waiting }) => waiting.length > 0)) await answer();
      if (fault) throw fault;
    },
    close: () => Promise.all(threads.map(({ worker }) => worker.terminate())),
  };
}
