// The package `tokenizers`, the Hugging Face library itself, in a process for each file (huggingface-process.ts): a file that makes
// the library crash, hang or take all memory ends its process. A thread (huggingface-thread.ts) talks to them while the caller waits.
import { deserialize, serialize } from 'node:v8';
import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { Gpt2Error, gpt2Error } from '../base/errors.ts';
import { startThread } from '../native/start-thread.ts';
import type { Encoded } from './tokenizer.ts';

/** The first request; it has no answer. */
export interface Opening {
  readonly file: string;
  /** For messages. */
  readonly path: string;
}
export type Request = { readonly encode: readonly string[] } | { readonly decode: readonly number[] };
export type Answer = { readonly encoded: Encoded } | { readonly text: string } | { readonly error: string };

/** In place of an answer: how the process ended. */
export interface Failure {
  readonly failed: string;
}

/** What huggingface-thread.ts receives for each file. */
export interface Bridge {
  /** The first frame for each process: an `Opening`. */
  readonly opening: Uint8Array;
  /** Counts the answers. */
  readonly answered: Int32Array;
  readonly port: MessagePort;
}

/** The most bytes of a request or an answer: eight times a file. */
export const largestFrame = 512 << 20;

let thread: Worker | undefined;

export class Library {
  readonly #answered = new Int32Array(new SharedArrayBuffer(4));
  readonly #port: MessagePort;
  readonly #path: string;

  /** @param path of the file, for messages */
  constructor(file: string, path: string) {
    this.#path = path;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    // A thread that does not start, as one with --input-type, which is for the main thread alone, would never answer.
    thread ??= startThread('./huggingface-thread', import.meta.url, { execArgv: [] });
    thread.unref();
    const opening: Opening = { file, path };
    const bridge: Bridge = { opening: serialize(opening), answered: this.#answered, port: port2 };
    thread.postMessage(bridge, [port2]);
    port1.unref();
  }

  /** @throws Gpt2Error if it refuses, or the library fails */
  encode(texts: readonly string[]): Encoded {
    return (this.#ask({ encode: texts }) as { encoded: Encoded }).encoded;
  }

  /** @throws as `encode` */
  decode(ids: readonly number[]): string {
    return (this.#ask({ decode: ids }) as { text: string }).text;
  }

  #ask(request: Request): Answer {
    const before = this.#answered[0]!;
    this.#port.postMessage(serialize(request));
    let received: { message: Uint8Array | Failure } | undefined;
    // The thread counts, then wakes: the wake of an answer that came while nobody slept can end the next wait.
    while (!received) {
      Atomics.wait(this.#answered, 0, before);
      received = receiveMessageOnPort(this.#port);
    }
    const { message } = received;
    if ('failed' in message) {
      throw gpt2Error`the package tokenizers ${message.failed}, with the tokenizer ${this.#path}: take another tokenizer`;
    }
    const answer = deserialize(message) as Answer;
    if ('error' in answer) throw new Gpt2Error(answer.error);
    return answer;
  }
}
