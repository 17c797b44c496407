// The thread that huggingface-library.ts waits for: passes messages to the library's processes and back, and starts a process for
// a file that has none.
import type { ChildProcess } from 'node:child_process';
import { parentPort } from 'node:worker_threads';
import { startProcess } from '../native/start-thread.ts';
import type { Answer, Bridge, Failure, Opening, Request } from './huggingface-library.ts';

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
    bridge.port.on('message', (request: Request) => this.#ask(request));
  }

  #ask(request: Request): void {
    this.#isAsked = true;
    running.delete(this);
    running.add(this);
    if (!this.#child) {
      if (running.size > mostProcesses) [...running][0]!.#end();
      this.#child = this.#start();
      this.#send(this.#bridge.opening);
    }
    this.#send(request);
  }

  #answer(message: Answer | Failure): void {
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

  /** If the process has ended, 'close' reports why. */
  #send(message: Opening | Request): void {
    this.#child!.send(message, () => {});
  }

  #start(): ChildProcess {
    const started = startProcess('./huggingface-process', import.meta.url, {
      // The library may print.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
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
    started.on('message', (answer: Answer) => this.#answer(answer));
    started.on('error', ({ message }) => fail(`cannot be started: ${message}`));
    started.on('close', (code, signal) => {
      const why = errors.replaceAll(/\s+/g, ' ').trim().slice(0, 200);
      fail(limits[signal ?? ''] ?? `ended with ${signal ?? `exit code ${code}`}${why && `: ${why}`}`);
    });
    return started;
  }
}

parentPort!.on('message', (bridge: Bridge) => new Served(bridge));
