// Waits for what comes in its own time, as long as it may take where other programs have the processors.
import { vi } from 'vitest';

export const until = <T>(check: () => T | Promise<T>): Promise<T> => vi.waitFor(check, { timeout: 100_000 });
