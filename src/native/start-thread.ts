// Threads of this program, started alike from the sources and from the compiled package.
import { Worker, type WorkerOptions } from 'node:worker_threads';

/**
 * @param module the thread's, without its suffix, which is that of the module that starts it
 * @param from import.meta.url of the module that starts it
 * @param workerData what the module finds under these names
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
