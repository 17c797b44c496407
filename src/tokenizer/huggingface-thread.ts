// The thread of huggingface-tokenizer.ts: encodes texts, one at a time.
import { workerData } from 'node:worker_threads';
import { type EncoderAnswer, type EncoderTask, open } from './huggingface-tokenizer.ts';

const { file, answered, port } = workerData as EncoderTask;
const tokenizer = open(file);
// These are options of the file for batches of short texts.
tokenizer.disableTruncation();
tokenizer.disablePadding();

port.on('message', async (text: string) => {
  let answer: EncoderAnswer;
  try {
    answer = { ids: Uint32Array.from((await tokenizer.encode(text, null, { addSpecialTokens: false })).getIds()) };
  } catch (error) {
    answer = { error: (error as Error).message };
  }
  port.postMessage(answer);
  Atomics.add(answered, 0, 1);
  Atomics.notify(answered, 0);
});
