// A live page beside a run: the server on a thread of its own (thread.ts), so that neither the steps wait for viewers nor the
// viewers for steps, and so that nothing that happens there ends the run.
import { Gpt2Error } from '../errors.ts';
import { startThread } from '../native/start-thread.ts';
import { isLoopback } from './guard.ts';
import type { Followed, ServeOptions } from './server.ts';

/** What the thread says once: where the page is, or why there is none. */
export type Opened = { readonly url: string } | { readonly failure: string };

/** What the thread is told. */
export type Order = { readonly follow: Followed } | 'close';

/** Of the thread, in MiB: viewers cost it a message each, the page's references less than a megabyte. */
const mostMemory = 128;

/** A page that waits for a run, or shows one. */
export interface LivePage {
  readonly url: string;
  /** Shows a run from here on. */
  follow(followed: Followed): void;
  /** For whom the page is all there is: when it has ended, of which there is no notice then. @throws Gpt2Error unless closed */
  ended(): Promise<void>;
  /** Lets the thread send what is left to be sent; it ends by itself, within a second. */
  close(): void;
}

/**
 * Opens the port, and says where the page is.
 * @param notice told of the address and, once, if the page ends before it is closed, unless that is waited for (`ended`)
 * @throws Gpt2Error naming the port or the address that cannot be had
 */
export async function openLivePage(options: ServeOptions, notice: (text: string) => void): Promise<LivePage> {
  const worker = startThread('./thread', import.meta.url, {
    workerData: { options },
    resourceLimits: { maxOldGenerationSizeMb: mostMemory },
  });
  const opened = await new Promise<Opened>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', (cause) => reject(new Gpt2Error(`cannot serve the live page: ${cause.message}`, { cause })));
  });
  if ('failure' in opened) throw new Gpt2Error(opened.failure);
  let isAwaited = false;
  const ended = new Promise<void>((resolve, reject) => {
    worker.once('error', (cause) => {
      const what = `the live page has ended: ${cause.message}`;
      if (!isAwaited) notice(`${what}; the run goes on`);
      reject(new Gpt2Error(`${what}; serve it again`, { cause }));
    });
    worker.once('exit', () => resolve());
  });
  ended.catch(() => {});
  const others = isLoopback(options.host) ? '' : ' (whoever can reach this address can read the run)';
  notice(`live page: ${opened.url}${others}`);
  const tell = (order: Order) => worker.postMessage(order);
  return {
    url: opened.url,
    follow: (followed) => tell({ follow: followed }),
    ended: () => {
      isAwaited = true;
      return ended;
    },
    close: () => tell('close'),
  };
}
