// Starts a thread or process whose module is TypeScript: it takes no loader from its parent, so this file registers one first.
// The compiled package starts its threads without this file.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
await import(workerData?.module ?? process.argv[2]);
