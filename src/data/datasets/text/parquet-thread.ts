// Runs on a thread: reads a Parquet file for parquet-reader.ts, one part of the documents per message.
import { parentPort, workerData } from 'node:worker_threads';
import { Gpt2Error } from '../../../base/errors.ts';
import { documentsOf } from './parquet.ts';
import type { Answer, FileToRead } from './parquet-reader.ts';

const { path, format } = workerData as FileToRead;
const tell = (answer: Answer, memory: ArrayBuffer[] = []) => parentPort!.postMessage(answer, memory);
let read = 0;
const documents = documentsOf(path, format, {
  onGroup: (group) => tell({ group }),
  onRead: (bytes) => {
    read += bytes;
  },
});

parentPort!.on('message', async () => {
  try {
    const { value, done } = await documents.next();
    const part = done ? undefined : new Uint8Array(value);
    tell({ read, part }, part && [part.buffer]);
    read = 0;
  } catch (error) {
    const { message } = error as Error;
    tell({ refusal: error instanceof Gpt2Error ? message : `${path} cannot be read: ${message}` });
  }
});
