// Starts worker threads, from the sources and from the compiled package.
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * @param module path of the thread's module, without its suffix
 * @param from import.meta.url of the caller
 * @param workerData data for the module
 */
export function startThread(
  module: string,
  from: string,
  { workerData, ...options }: WorkerOptions & { workerData?: object } = {},
): Worker {
  const isSource = from.endsWith('.ts');
  const url = new URL(`${module}.${isSource ? 'ts' : 'js'}`, from);
  // A thread of Node 20 takes no loader from its parent.
  const entry = isSource ? new URL('./typescript-thread.mjs', import.meta.url) : url;
  return new Worker(entry, { ...options, workerData: { module: url.href, ...workerData } });
}
