// The end of a process whose main thread may never come back: a GPU can wait for ever for a rank that is gone, and who frees
// its memory waits with it.
import { Worker } from 'node:worker_threads';

const source = `
const { writeSync } = require('node:fs');
const { workerData } = require('node:worker_threads');
setTimeout(() => {
  writeSync(2, workerData.text + '\\n');
  process.kill(process.pid, 'SIGKILL');
}, workerData.milliseconds);
`;

/** Ends this process after a time, unless it has ended by itself, with what there is to say. */
export function endLater(text: string, milliseconds: number): void {
  new Worker(source, { eval: true, execArgv: [], workerData: { text, milliseconds } }).unref();
}
