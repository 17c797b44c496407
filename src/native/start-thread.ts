// Starts worker threads and processes that run a module of this package: TypeScript in a git clone, else compiled JavaScript.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * Starts a worker thread that runs a module.
 * @param module path relative to `from`, the caller's import.meta.url; without .ts or .js
 * @param workerData data for the module
 */
export function startThread(
  module: string,
  from: string,
  { workerData, ...options }: WorkerOptions & { workerData?: object } = {},
): Worker {
  const { entry, url } = entryOf(module, from);
  return new Worker(entry, { ...options, workerData: { module: url.href, ...workerData } });
}

/** Starts a Node process that runs a module; `module` and `from` are as for `startThread`. */
export function startProcess(module: string, from: string, options: SpawnOptions): ChildProcess {
  const { entry, url } = entryOf(module, from);
  return spawn(process.execPath, [fileURLToPath(entry), url.href], options);
}

function entryOf(module: string, from: string): { entry: URL; url: URL } {
  const isSource = from.endsWith('.ts');
  const url = new URL(`${module}.${isSource ? 'ts' : 'js'}`, from);
  // typescript-thread.mjs loads tsx: in Node 20 a thread inherits no loader; a child process of a test has no loader either.
  return { entry: isSource ? new URL('./typescript-thread.mjs', import.meta.url) : url, url };
}
