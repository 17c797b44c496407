// Starts worker threads and processes, from the sources and from the compiled package.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * @param module path of the thread's module, without .ts or .js
 * @param from import.meta.url of the caller
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

/** Starts a process of Node that runs a module, named as for `startThread`. */
export function startProcess(module: string, from: string, options: SpawnOptions): ChildProcess {
  const { entry, url } = entryOf(module, from);
  return spawn(process.execPath, [fileURLToPath(entry), url.href], options);
}

function entryOf(module: string, from: string): { entry: URL; url: URL } {
  const isSource = from.endsWith('.ts');
  const url = new URL(`${module}.${isSource ? 'ts' : 'js'}`, from);
  // A thread of Node 20 takes no loader from its parent, and a process cannot use the loader of a test runner.
  return { entry: isSource ? new URL('./typescript-thread.mjs', import.meta.url) : url, url };
}
