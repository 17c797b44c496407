// The entry of a thread or process that runs a TypeScript module. Node 20 passes no loader to a thread, so this file registers tsx
// first. Threads of the compiled package start without this file.
import { workerData } from 'node:worker_threads';
import { register } from 'tsx/esm/api';

register();
await import(workerData?.module ?? process.argv[2]);
