// Opens the live page. A separate thread (thread.ts) serves it, so that training and viewers do not wait for each other, and a failing
// server does not end the run.
import { Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { startThread } from '../../native/start-thread.ts';
import type { KernelRound } from '../kernel-round.ts';
import { isLoopback } from './guard.ts';
import type { Followed, ServeOptions } from './server.ts';

/** The thread's first message: the page's URL, or the reason why it cannot be served. */
export type Opened = { readonly url: string } | { readonly failure: string };

export type Order = { readonly follow: Followed } | { readonly show: KernelRound } | 'close' | 'close unwatched';

/** The thread's answer to 'close unwatched'. */
export type Answer = { readonly isWatched: boolean };

/** Largest heap of the thread in MiB. A viewer needs memory for one message, and the reference curves less than a megabyte. */
const resourceLimits = { maxOldGenerationSizeMb: 128 };

export type LivePage = Awaited<ReturnType<typeof openLivePage>>;

/**
 * Starts the thread that serves the page, and waits until its port is open.
 * @param notice called with the page's URL; and with the error if the page fails and nobody has called `ended`
 * @throws Gpt2Error with the port or address that is not available
 */
export async function openLivePage(options: ServeOptions, notice: (text: string) => void) {
  const worker = startThread('./thread', import.meta.url, { workerData: { options }, resourceLimits });
  const opened = await new Promise<Opened>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', (cause) => reject(gpt2Error`cannot serve the live page: ${cause}`));
  });
  if ('failure' in opened) throw new Gpt2Error(opened.failure);
  let isAwaited = false;
  const ended = new Promise<undefined>((resolve, reject) => {
    worker.once('error', (cause) => {
      const what = `the live page has ended: ${cause.message}`;
      if (!isAwaited) notice(`${what}; the ${options.shows === 'kernels' ? 'watch' : 'run'} continues`);
      reject(new Gpt2Error(`${what}; serve it again`, { cause }));
    });
    worker.once('exit', () => resolve(undefined));
  });
  ended.catch(() => {});
  const others = isLoopback(options.host) ? '' : ' (whoever can reach this address can read it)';
  notice(`live page: ${opened.url}${others}`);
  const tell = (order: Order) => worker.postMessage(order);
  return {
    url: opened.url,
    /** Makes the page show a run from now on. */
    follow: (followed: Followed) => tell({ follow: followed }),
    /** Makes a page that was opened for kernels show the state of `kernel watch`. */
    show: (round: KernelRound) => tell({ show: round }),
    /** Waits until the page has ended. A failure after this call is only thrown, without a call of `notice`. @throws Gpt2Error */
    ended: () => {
      isAwaited = true;
      return ended;
    },
    /** Closes the page as soon as it has no viewer. @returns whether the page has a viewer now */
    closeUnwatched: async (): Promise<boolean> => {
      const answered = new Promise<Answer>((resolve) => void worker.once('message', resolve));
      tell('close unwatched');
      const failed = ended.catch(() => undefined);
      return (await Promise.race([answered, failed]))?.isWatched ?? false;
    },
    /** Tells the thread to send the rest of the log and end. Returns at once; the thread ends within about a second. */
    close: () => tell('close'),
  };
}
