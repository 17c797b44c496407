// The thread that huggingface-library.ts waits for: passes frames to the library's processes and back, and starts a process for
// a file that has none. A frame is its length in four bytes, and the bytes.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { parentPort } from 'node:worker_threads';
import { startProcess } from '../native/start-thread.ts';
import { type Bridge, type Failure, largestFrame } from './huggingface-library.ts';

/** The signals with which a process ends itself, as failures; see huggingface-process.ts. */
const limits: Readonly<Record<string, string>> = {
  SIGALRM: 'did not answer in time',
  SIGUSR2: 'took over 2 GiB of memory',
};
/** The most processes at a time: a thousand opened files took 4.5 GB. */
const mostProcesses = 8;
/** The files that have a process, the most recently used at the end. */
const running = new Set<Served>();

class Served {
  readonly #bridge: Bridge;
  #child: ChildProcess | undefined;
  #isAsked = false;

  constructor(bridge: Bridge) {
    this.#bridge = bridge;
    bridge.port.on('message', (frame: Uint8Array) => this.#ask(frame));
  }

  #ask(frame: Uint8Array): void {
    this.#isAsked = true;
    running.delete(this);
    running.add(this);
    if (!this.#child) {
      if (running.size > mostProcesses) [...running][0]!.#end();
      this.#child = this.#start();
      this.#send(this.#bridge.opening);
    }
    this.#send(frame);
  }

  #answer(message: Uint8Array | Failure): void {
    const { port, answered } = this.#bridge;
    this.#isAsked = false;
    port.postMessage(message);
    Atomics.add(answered, 0, 1);
    Atomics.notify(answered, 0);
  }

  #end(): void {
    running.delete(this);
    this.#child?.kill('SIGKILL');
    this.#child = undefined;
  }

  #send(frame: Uint8Array): void {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(frame.length);
    this.#child!.stdin!.write(Buffer.concat([length, frame]));
  }

  #start(): ChildProcess {
    const started = startProcess('./huggingface-process', import.meta.url, {
      stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
      // One core is enough: each thread of prepro has a process. Detached, to receive no signals of the terminal.
      env: { ...process.env, TOKENIZERS_PARALLELISM: 'false', RUST_BACKTRACE: '0' },
      detached: true,
    });
    const fail = (failed: string) => {
      if (this.#child !== started) return;
      this.#end();
      if (this.#isAsked) this.#answer({ failed });
    };
    let errors = '';
    started.stderr!.on('data', (text) => {
      errors = (errors + text).slice(0, 1000);
    });
    let parts: Buffer[] = [];
    let [have, needed] = [0, 4];
    (started.stdio[3] as Readable).on('data', (data: Buffer) => {
      parts.push(data);
      have += data.length;
      if (have < needed) return;
      const received = Buffer.concat(parts);
      parts = [received];
      needed = 4 + received.readUInt32LE();
      if (needed > largestFrame || have > needed || !this.#isAsked) return fail('gave an answer that cannot be read');
      if (have < needed) return;
      parts = [];
      [have, needed] = [0, 4];
      this.#answer(received.subarray(4));
    });
    // The process has ended; 'close' reports why.
    started.stdin!.on('error', () => {});
    started.on('error', ({ message }) => fail(`cannot be started: ${message}`));
    started.on('close', (code, signal) => {
      const why = errors.replaceAll(/\s+/g, ' ').trim().slice(0, 200);
      fail(limits[signal ?? ''] ?? `ended with ${signal ?? `exit code ${code}`}${why && `: ${why}`}`);
    });
    return started;
  }
}

parentPort!.on('message', (bridge: Bridge) => new Served(bridge));
