// Connects ranks: rank 0 listens, and every other rank retries until rank 0 answers.
import { once } from 'node:events';
import { connect as connectSocket, createServer, type Server } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { gpt2Error } from '../base/errors.ts';
import { Channel, introduce, RefusedError, welcome } from './channel.ts';
import type { Place } from './place.ts';

const retryMilliseconds = 200;
/** A rank that waits longer than this prints a notice. */
const quietMilliseconds = 5000;

/**
 * Opens channels, keyed by rank: from rank 0 to every other rank, from any other rank only to rank 0.
 * @throws Gpt2Error if a rank does not connect in time, or rank 0 refuses this one
 */
export async function meet(
  place: Place,
  notice: (text: string) => void,
  signal?: AbortSignal,
): Promise<Map<number, Channel>> {
  const { rank, ranks, ranksFrom, host, port } = place;
  const channels = new Map<number, Channel>();
  const timer = globalThis.setTimeout(() => {
    const missing = rank === 0 ? missingRanks(place, channels) : `rank 0 at ${host}`;
    notice(
      `rank ${rank} waits for ${missing} on port ${port}, because ${ranksFrom} is ${ranks}: start every rank, or unset ${ranksFrom}`,
    );
  }, quietMilliseconds);
  try {
    if (rank === 0) await gather(place, channels, notice, signal);
    else channels.set(0, await reach(place, signal));
    return channels;
  } finally {
    clearTimeout(timer);
  }
}

/** "rank 2", "ranks 1, 2": the ranks without a channel to rank 0. */
function missingRanks({ ranks }: Place, channels: ReadonlyMap<number, Channel>): string {
  const missing = Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => rank > 0 && !channels.has(rank));
  return `rank${missing.length === 1 ? '' : 's'} ${missing.join(', ')}`;
}

const stopped = () => gpt2Error`stopped while waiting for the other ranks`;

async function gather(
  place: Place,
  channels: Map<number, Channel>,
  notice: (text: string) => void,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { ranks, port, joinSeconds, token } = place;
  const server = await listen(place);
  const connected: Channel[] = [];
  let timer: NodeJS.Timeout | undefined;
  try {
    await new Promise<void>((resolve, reject) => {
      timer = globalThis.setTimeout(() => {
        const names = `${missingRanks(place, channels)} ${ranks - channels.size === 2 ? 'has' : 'have'}`;
        reject(gpt2Error`${names} not connected to port ${port} within ${joinSeconds} s (GPT2_JOIN_SECONDS)`);
      }, joinSeconds * 1000);
      signal?.addEventListener('abort', () => reject(stopped()), { once: true });
      if (signal?.aborted) reject(stopped());
      server.on('connection', async (socket) => {
        const channel = new Channel(socket);
        connected.push(channel);
        const refuse = (rank: number) => {
          if (rank < 1 || rank >= ranks) return `there is no rank ${rank} of ${ranks}`;
          return channels.has(rank) ? `rank ${rank} has already joined` : undefined;
        };
        try {
          channels.set(await welcome(channel, { token, ranks, refuse }), channel);
          if (channels.size === ranks - 1) resolve();
        } catch (error) {
          notice(`refused a connection from ${channel.peer}: ${(error as Error).message}`);
          channel.close();
        }
      });
    });
  } catch (error) {
    // Closes also the channels of ranks that are still joining; otherwise they would wait for rank 0.
    for (const channel of connected) channel.close();
    throw error;
  } finally {
    clearTimeout(timer);
    server.close();
  }
}

function listen({ host, port }: Place): Promise<Server> {
  // If all ranks are on this machine, other machines need not reach the port.
  const isLocal = host === '127.0.0.1' || host === 'localhost';
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', ({ message, code }: NodeJS.ErrnoException) => {
      const why = code === 'EADDRINUSE' ? 'it is in use; set MASTER_PORT to another, for every rank' : message;
      reject(gpt2Error`cannot listen on port ${port}: ${why}`);
    });
    server.listen(port, isLocal ? '127.0.0.1' : undefined, () => resolve(server));
  });
}

async function reach(
  { rank, ranks, host, port, token, joinSeconds }: Place,
  signal: AbortSignal | undefined,
): Promise<Channel> {
  const end = performance.now() + joinSeconds * 1000;
  for (;;) {
    try {
      const channel = await connect(host, port);
      try {
        await introduce(channel, { token, rank, ranks });
        return channel;
      } catch (error) {
        channel.close();
        throw error;
      }
    } catch (error) {
      if (error instanceof RefusedError) throw gpt2Error`rank 0 at ${host}:${port} refused this rank: ${error}`;
      if (performance.now() > end) {
        throw gpt2Error`rank 0 was not reached at ${host}:${port} within ${joinSeconds} s: ${error}`;
      }
      await setTimeout(retryMilliseconds);
      if (signal?.aborted) throw stopped();
    }
  }
}

async function connect(host: string, port: number): Promise<Channel> {
  const socket = connectSocket({ host, port });
  await once(socket, 'connect');
  return new Channel(socket);
}
