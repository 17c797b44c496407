// Waits until a check passes, as long as that may take on a busy machine; or until a server listens.
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { vi } from 'vitest';

export const until = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 100_000 });

/** Starts a server on this machine. @returns its port */
export async function listening(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}
