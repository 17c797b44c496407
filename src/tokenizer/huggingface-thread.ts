// The thread of huggingface-tokenizer.ts: encodes texts, one at a time.
import { workerData } from 'node:worker_threads';
import { type EncoderAnswer, type EncoderTask, open } from './huggingface-tokenizer.ts';

const { file, answered, port } = workerData as EncoderTask;
const tokenizer = open(file);
// These are options of the file for batches of short texts.
tokenizer.disableTruncation();
tokenizer.disablePadding();

port.on('message', async (text: string) => {
  const answer = await tokenizer.encode(text, null, { addSpecialTokens: false }).then(
    (encoding): EncoderAnswer => ({ ids: Uint32Array.from(encoding.getIds()) }),
    (error: Error): EncoderAnswer => ({ error: error.message }),
  );
  port.postMessage(answer);
  Atomics.add(answered, 0, 1);
  Atomics.notify(answered, 0);
});
