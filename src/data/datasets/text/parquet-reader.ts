// Reads a Parquet file on a separate thread, concurrently with encoding. If decoding a damaged page never ends, only the thread is
// lost. parquet.ts reads the format.
import { Gpt2Error } from '../../../base/errors.ts';
import { startThread } from '../../../native/start-thread.ts';
import type { Format } from './format.ts';

/** The time limit for a row group in milliseconds; one takes about a second. */
const patience = 60_000;

export interface FileToRead {
  readonly path: string;
  readonly format: Format;
}

export type Answer =
  /** The index of the row group that is being read. */
  | { readonly group: number }
  /** `part`: documents; undefined at the end. `read`: how many bytes of the file were read for these documents. */
  | { readonly part: Uint8Array<ArrayBuffer> | undefined; readonly read: number }
  | { readonly refusal: string };

type Result = Exclude<Answer, { group: number }>;

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
  let request: { resolve: (answer: Result) => void; refuse: (why: string) => void } | undefined;
  thread.on('message', (answer: Answer) => {
    if (!('group' in answer)) return request?.resolve(answer);
    group = answer.group;
    timer?.refresh();
  });
  // If no request is open, the next request fails at once.
  const fail = (why: string) => {
    fault ??= `cannot be read: ${why}`;
    request?.refuse(fault);
  };
  thread.on('error', ({ message }) => fail(message));
  thread.on('exit', () => fail('the thread that reads it has ended'));
  const ask = async (): Promise<Result> => {
    try {
      return await new Promise((resolve, reject) => {
        const refuse = (why: string) =>
          reject(new Gpt2Error(`row group ${group} of ${file.path} ${why}; download or write it again`));
        if (fault !== undefined) return refuse(fault);
        request = { resolve, refuse };
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
