// The thread that serves a live page: opens the server, reports its URL, and follows the orders of live-page.ts.
import { parentPort, workerData } from 'node:worker_threads';
import { expected } from '../../base/errors.ts';
import type { Answer, Opened, Order } from './live-page.ts';
import { LiveServer } from './server.ts';

const port = parentPort!;
const answer = (opened: Opened | Answer) => port.postMessage(opened);

try {
  const server = await LiveServer.open(workerData.options);
  port.on('message', async (order: Order) => {
    if (typeof order === 'object') return 'show' in order ? server.show(order.show) : server.follow(order.follow);
    if (order === 'close unwatched') {
      answer({ isWatched: server.isWatched });
      await server.unwatched();
    }
    await server.close();
    port.close();
  });
  answer({ url: server.url });
} catch (error) {
  answer({ failure: expected(error).message });
}
