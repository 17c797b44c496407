// The thread that reads a Parquet file fails, or ends, between two requests: the next one is refused at once. A stand-in for the
// thread, because nothing that a file holds does this.
import { EventEmitter } from 'node:events';
import { beforeEach, expect, it, vi } from 'vitest';
import { Gpt2Error } from '../../../src/base/errors.ts';
import { type Answer, parquetDocuments } from '../../../src/data/datasets/text/parquet-reader.ts';

class StandIn extends EventEmitter {
  readonly requests: unknown[] = [];
  postMessage(request: unknown): void {
    this.requests.push(request);
    const answers: Answer[] = [{ group: 3 }, { part: Uint8Array.of(1), read: 1 }];
    if (this.requests.length === 1) for (const answer of answers) this.emit('message', answer);
  }
  async terminate(): Promise<void> {
    this.emit('exit', 1);
  }
}

let thread: StandIn;
vi.mock('../../../src/native/start-thread.ts', () => ({ startThread: () => thread }));
beforeEach(() => {
  thread = new StandIn();
});

it.each([
  ['an error', () => thread.emit('error', new Error('out of memory')), 'out of memory'],
  ['an end', () => thread.emit('exit', 1), 'the thread that reads it has ended'],
])('%s between two requests', async (_, happens, why) => {
  const parts = parquetDocuments({ path: 'a.parquet', format: { kind: 'jsonl', field: 'text' } }, () => {});
  expect(await parts.next()).toEqual({ done: false, value: Uint8Array.of(1) });
  happens();
  const message = `row group 3 of a.parquet cannot be read: ${why}; download or write it again`;
  await expect(parts.next()).rejects.toThrow(new Gpt2Error(message));
  expect(thread.requests).toHaveLength(1);
});
