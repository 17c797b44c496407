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
/** The answer to a request. `failed`: how the process ended before it answered. */
export type Answer =
  | { readonly encoded: Encoded }
  | { readonly text: string }
  | { readonly error: string }
  | { readonly failed: string };

/** The message to huggingface-thread.ts that registers a file. */
export interface Bridge {
  readonly opening: Opening;
  /** The number of answers so far, in memory shared with the thread; the caller waits for it to change. */
  readonly answered: Int32Array;
  readonly port: MessagePort;
}

let thread: Worker | undefined;

/** Opens a tokenizer.json in the library. @param file the content @param path the file's path, for messages */
export function libraryOf(file: string, path: string) {
  const answered = new Int32Array(new SharedArrayBuffer(4));
  const { port1, port2 } = new MessageChannel();
  // execArgv is emptied: a flag for the main thread only, such as --input-type, would keep the thread from starting and answering.
  thread ??= startThread('./huggingface-thread', import.meta.url, { execArgv: [] });
  thread.unref();
  const bridge: Bridge = { opening: { file, path }, answered, port: port2 };
  thread.postMessage(bridge, [port2]);
  port1.unref();
  const ask = (request: Request): Answer => {
    const before = answered[0]!;
    port1.postMessage(request);
    let received: { message: Answer } | undefined;
    // A loop, because the wait can end without an answer: the wake-up for an earlier request's answer may come only now.
    while (!received) {
      Atomics.wait(answered, 0, before);
      received = receiveMessageOnPort(port1);
    }
    const { message } = received;
    if ('failed' in message) {
      throw gpt2Error`the package tokenizers ${message.failed}, with the tokenizer ${path}: take another tokenizer`;
    }
    if ('error' in message) throw new Gpt2Error(message.error);
    return message;
  };
  return {
    /** @throws Gpt2Error if the library refuses the file or a text, or fails */
    encode: (texts: readonly string[]) => (ask({ encode: texts }) as { encoded: Encoded }).encoded,
    decode: (ids: readonly number[]) => (ask({ decode: ids }) as { text: string }).text,
    /** Trains on text files. @returns the content of the new tokenizer.json @throws as `encode` */
    train: (files: readonly string[]) => (ask({ train: files }) as { text: string }).text,
  };
}
