// Calls the package `tokenizers`, the Hugging Face library, in a separate process for each file (huggingface-process.ts): a file
// that makes the library crash, hang or take all memory ends only that process. A thread (huggingface-thread.ts) exchanges
// messages with the processes while the caller waits.
import { MessageChannel, type MessagePort, receiveMessageOnPort, type Worker } from 'node:worker_threads';
import { Gpt2Error, gpt2Error } from '../base/errors.ts';
import { startThread } from '../native/start-thread.ts';
import type { Encoded } from './tokenizer.ts';

/** The first message to a process, which has no answer: the content of tokenizer.json, and its path for error messages. */
export interface Opening {
  readonly file: string;
  readonly path: string;
}
export type Request =
  | { readonly encode: readonly string[] }
  | { readonly decode: readonly number[] }
  | { readonly train: readonly string[] };
export type Answer = { readonly encoded: Encoded } | { readonly text: string } | { readonly error: string };

/** Instead of an answer: how the process ended. */
export interface Failure {
  readonly failed: string;
}

/** The message to huggingface-thread.ts that registers a file. */
export interface Bridge {
  readonly opening: Opening;
  /** The number of answers, shared with the thread. */
  readonly answered: Int32Array;
  readonly port: MessagePort;
}

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
    // Without execArgv: --input-type, for example, is for the main thread only, and a thread that does not start never answers.
    thread ??= startThread('./huggingface-thread', import.meta.url, { execArgv: [] });
    thread.unref();
    const bridge: Bridge = { opening: { file, path }, answered: this.#answered, port: port2 };
    thread.postMessage(bridge, [port2]);
    port1.unref();
  }

  /** @throws Gpt2Error if the library refuses the file or a text, or fails */
  encode(texts: readonly string[]): Encoded {
    return (this.#ask({ encode: texts }) as { encoded: Encoded }).encoded;
  }

  /** @throws as `encode` */
  decode(ids: readonly number[]): string {
    return (this.#ask({ decode: ids }) as { text: string }).text;
  }

  /** Trains on text files. @returns the content of the new tokenizer.json @throws as `encode` */
  train(files: readonly string[]): string {
    return (this.#ask({ train: files }) as { text: string }).text;
  }

  #ask(request: Request): Answer {
    const before = this.#answered[0]!;
    this.#port.postMessage(request);
    let received: { message: Answer | Failure } | undefined;
    // In a loop: the wake-up of an earlier answer, which came before its wait began, can end this wait.
    while (!received) {
      Atomics.wait(this.#answered, 0, before);
      received = receiveMessageOnPort(this.#port);
    }
    const { message } = received;
    if ('failed' in message) {
      throw gpt2Error`the package tokenizers ${message.failed}, with the tokenizer ${this.#path}: take another tokenizer`;
    }
    if ('error' in message) throw new Gpt2Error(message.error);
    return message;
  }
}
