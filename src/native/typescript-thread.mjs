// A thread whose module is TypeScript: Node's threads take no loader from their parent, so it is registered here first.
// Only from source; the compiled package starts its threads without it.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
await import(workerData.module);
