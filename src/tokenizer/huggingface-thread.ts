// The thread of huggingface-library.ts, which waits for it: passes frames to the process of the library and back, and starts it
// when there is none. A frame is its length in four bytes, and the bytes.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { workerData } from 'node:worker_threads';
import { startProcess } from '../native/start-thread.ts';
import { type Bridge, type Failure, largestFrame } from './huggingface-library.ts';

const { opening, answered, port } = workerData as Bridge;
/** What the process ends itself with; see huggingface-process.ts. */
const limits: Readonly<Record<string, string>> = {
  SIGALRM: 'did not answer in time',
  SIGUSR2: 'took over 2 GiB of memory',
};

let child: ChildProcess | undefined;
let isAsked = false;

function answer(message: Uint8Array | Failure): void {
  isAsked = false;
  port.postMessage(message);
  Atomics.add(answered, 0, 1);
  Atomics.notify(answered, 0);
}

function start(): ChildProcess {
  const started = startProcess('./huggingface-process', import.meta.url, {
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
    // Each thread of prepro has a process, so one core is enough. Signals of the terminal are for this process.
    env: { ...process.env, TOKENIZERS_PARALLELISM: 'false', RUST_BACKTRACE: '0' },
    detached: true,
  });
  const fail = (failed: string) => {
    if (child !== started) return;
    child = undefined;
    started.kill('SIGKILL');
    if (isAsked) answer({ failed });
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
    if (needed > largestFrame || have > needed || !isAsked) return fail('gave an answer that cannot be read');
    if (have < needed) return;
    parts = [];
    [have, needed] = [0, 4];
    answer(received.subarray(4));
  });
  // Its end says more.
  started.stdin!.on('error', () => {});
  started.on('error', ({ message }) => fail(`cannot be started: ${message}`));
  started.on('close', (code, signal) => {
    const why = errors.replaceAll(/\s+/g, ' ').trim().slice(0, 200);
    fail(limits[signal ?? ''] ?? `ended with ${signal ?? `exit code ${code}`}${why && `: ${why}`}`);
  });
  return started;
}

function send(frame: Uint8Array): void {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(frame.length);
  child!.stdin!.write(Buffer.concat([length, frame]));
}

port.on('message', (frame: Uint8Array) => {
  isAsked = true;
  if (!child) {
    child = start();
    send(opening);
  }
  send(frame);
});
