// Waits until a check passes: for as long as a busy machine may take.
import { vi } from 'vitest';

export const until = <R>(check: () => R): Promise<Awaited<R>> =>
  vi.waitFor(check, { timeout: 60_000, interval: 50 }) as Promise<Awaited<R>>;
