// A thread or process whose module is TypeScript: it takes no loader from its parent, so one is registered here first.
// Only from source; the compiled package starts its threads without it.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
await import(workerData?.module ?? process.argv[2]);
