// Serves a live page on a separate thread (thread.ts), so that steps and viewers do not wait for each other, and no failure of
// the server ends the run.
import { Gpt2Error, gpt2Error } from '../../base/errors.ts';
import { startThread } from '../../native/start-thread.ts';
import type { KernelRound } from '../kernel-round.ts';
import { isLoopback } from './guard.ts';
import type { Followed, ServeOptions } from './server.ts';

/** The thread's first message: the page's address, or its failure. */
export type Opened = { readonly url: string } | { readonly failure: string };

export type Order = { readonly follow: Followed } | { readonly show: KernelRound } | 'close' | 'close unwatched';

/** The answer to 'close unwatched'. */
export type Answer = { readonly isWatched: boolean };

/** The thread's heap in MiB: each viewer needs a message, the page's references less than a megabyte. */
const resourceLimits = { maxOldGenerationSizeMb: 128 };

export type LivePage = Awaited<ReturnType<typeof openLivePage>>;

/**
 * Opens the port and reports the page's address.
 * @param notice called with the address, and with the failure if the page ends by itself and `ended` is not awaited
 * @throws Gpt2Error naming the port or the address that is not available
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
    /** Shows a run from now on. */
    follow: (followed: Followed) => tell({ follow: followed }),
    /** Shows kernels from now on; the page must have been opened for kernels. */
    show: (round: KernelRound) => tell({ show: round }),
    /** Waits until the page has ended, instead of the notice. @throws Gpt2Error unless the page was closed */
    ended: () => {
      isAwaited = true;
      return ended;
    },
    /** Closes the page as soon as nobody watches it. @returns whether somebody watches now */
    closeUnwatched: async (): Promise<boolean> => {
      const answered = new Promise<Answer>((resolve) => void worker.once('message', resolve));
      tell('close unwatched');
      const failed = ended.catch(() => undefined);
      return (await Promise.race([answered, failed]))?.isWatched ?? false;
    },
    /** The thread sends the rest of the log and ends by itself within a second. */
    close: () => tell('close'),
  };
}
