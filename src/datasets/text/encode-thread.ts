// Runs on a thread: takes chunks from thread-pool.ts, one at a time, and writes the part of each.
import { parentPort, workerData } from 'node:worker_threads';
import { Gpt2Error } from '../../errors.ts';
import { tokenizerNamed } from '../../tokenizer/tokenizer.ts';
import { ChunkEncoder } from './encode-chunk.ts';
import { partPath, writePart } from './parts.ts';
import type { Answer, Order, Task } from './thread-pool.ts';

const { encoding, folder } = (workerData as { task: Task }).task;
const encoder = new ChunkEncoder(tokenizerNamed(encoding.tokenizer)!, encoding.format);

parentPort!.on('message', ({ chunk, key }: Order) => {
  const answer: Answer = { memory: chunk.bytes.buffer };
  try {
    writePart(partPath(folder, chunk.index), key, encoder.encode(chunk));
  } catch (error) {
    if (!(error instanceof Gpt2Error)) throw error;
    Object.assign(answer, { refusal: error.message });
  }
  parentPort!.postMessage(answer, [answer.memory]);
});
