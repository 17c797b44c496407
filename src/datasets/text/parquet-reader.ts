// Reads a Parquet file on a thread of its own: beside the encoding, and so that a damaged page from which decoding never comes
// back can be given up. What is read, and how, is in parquet.ts.
import { Gpt2Error } from '../../errors.ts';
import { startThread } from '../../native/start-thread.ts';
import type { Format } from './format.ts';

/** A row group takes about a second at most. */
const patience = 60_000;

/** What the thread is started with. */
export interface FileToRead {
  readonly path: string;
  readonly format: Format;
}

export type Answer =
  /** The row group that is begun. */
  | { readonly group: number }
  /** Documents, or none behind the last; and bytes of the file that were read for them. */
  | { readonly part: Uint8Array<ArrayBuffer> | undefined; readonly read: number }
  | { readonly refusal: string };

type Settled = Exclude<Answer, { group: number }>;

/** The documents of a file. @throws Gpt2Error naming the file, and the row group that cannot be read */
export async function* parquetDocuments(
  file: FileToRead,
  onRead: (bytes: number) => void,
  milliseconds = patience,
): AsyncGenerator<Uint8Array> {
  const thread = startThread('./parquet-thread', import.meta.url, { workerData: file });
  let group = 0;
  let timer: NodeJS.Timeout | undefined;
  let fault: string | undefined;
  let settle: { resolve: (answer: Settled) => void; refuse: (why: string) => void } | undefined;
  thread.on('message', (answer: Answer) => {
    if (!('group' in answer)) return settle?.resolve(answer);
    group = answer.group;
    timer?.refresh();
  });
  // Also between two requests: the next is then refused at once.
  const fail = (why: string) => {
    fault ??= `cannot be read: ${why}`;
    settle?.refuse(fault);
  };
  thread.on('error', ({ message }) => fail(message));
  thread.on('exit', () => fail('the thread that reads it has ended'));
  const ask = async (): Promise<Settled> => {
    try {
      return await new Promise((resolve, reject) => {
        const refuse = (why: string) =>
          reject(new Gpt2Error(`row group ${group} of ${file.path} ${why}; download or write it again`));
        if (fault !== undefined) return refuse(fault);
        settle = { resolve, refuse };
        timer = setTimeout(() => refuse(`is not read after ${milliseconds / 1000} s`), milliseconds);
        thread.postMessage('next');
      });
    } finally {
      clearTimeout(timer);
    }
  };
  try {
    for (;;) {
      const answer = await ask();
      if ('refusal' in answer) throw new Gpt2Error(answer.refusal);
      onRead(answer.read);
      if (!answer.part) return;
      yield answer.part;
    }
  } finally {
    await thread.terminate();
  }
}
