// The thread that huggingface-library.ts waits for: passes messages to the library's processes and back, and starts a process for
// a file that has none.
import type { ChildProcess } from 'node:child_process';
import { parentPort } from 'node:worker_threads';
import { startProcess } from '../native/start-thread.ts';
import type { Answer, Bridge, Request } from './huggingface-library.ts';

/** Failures by the signal with which a process ends itself when it exceeds a limit (huggingface-process.ts). */
const limits: Readonly<Record<string, string>> = {
  SIGALRM: 'did not answer in time',
  SIGUSR2: 'took over 2 GiB of memory',
};
/** The most processes at a time. Without a limit, a thousand opened files took 4.5 GB. */
const mostProcesses = 8;
/** For each running process, a function that ends the process; the least recently used process is first. */
const running = new Set<() => void>();

function serve({ opening, answered, port }: Bridge): void {
  let child: ChildProcess | undefined;
  let isAsked = false;
  const answer = (message: Answer): void => {
    isAsked = false;
    port.postMessage(message);
    Atomics.add(answered, 0, 1);
    Atomics.notify(answered, 0);
  };
  const end = (): void => {
    running.delete(end);
    child?.kill('SIGKILL');
    child = undefined;
  };
  const start = (): ChildProcess => {
    const started = startProcess('./huggingface-process', import.meta.url, {
      // Standard output is ignored, because the library may print.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      serialization: 'advanced',
      // One core is enough, because each thread of prepro has a process. Detached processes receive no signals of the terminal.
      env: { ...process.env, TOKENIZERS_PARALLELISM: 'false', RUST_BACKTRACE: '0' },
      detached: true,
    });
    const fail = (failed: string) => {
      if (child !== started) return;
      end();
      if (isAsked) answer({ failed });
    };
    let errors = '';
    started.stderr!.on('data', (text) => {
      errors = (errors + text).slice(0, 1000);
    });
    started.on('message', answer);
    started.on('error', ({ message }) => fail(`cannot be started: ${message}`));
    started.on('close', (code, signal) => {
      const why = errors.replaceAll(/\s+/g, ' ').trim().slice(0, 200);
      fail(limits[signal ?? ''] ?? `ended with ${signal ?? `exit code ${code}`}${why && `: ${why}`}`);
    });
    return started;
  };
  port.on('message', (request: Request) => {
    isAsked = true;
    running.delete(end);
    running.add(end);
    if (!child && running.size > mostProcesses) [...running][0]!();
    const isNew = !child;
    child ??= start();
    // If the process has ended, 'close' reports why.
    for (const message of isNew ? [opening, request] : [request]) child.send(message, () => {});
  });
}

parentPort!.on('message', serve);
