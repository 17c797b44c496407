// Waits until a check passes, as long as that may take on a busy machine.
import { vi } from 'vitest';

export const until = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 100_000 });
