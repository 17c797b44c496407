// Signals that end a training run, saved, and the exit codes that say so: 128 and the signal's number.
import { constants } from 'node:os';

/** What people and batch systems end a process with. A second one means at once. */
export const demands = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** What batch systems announce the end with; the demand comes later. */
export const announcements = ['SIGUSR1', 'SIGUSR2', 'SIGXCPU', 'SIGALRM'] as const;

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** The demand or announcement that an exit code tells of. */
export const signalOf = (exitCode: unknown): NodeJS.Signals | undefined =>
  [...demands, ...announcements].find((signal) => exitCodeOf(signal) === exitCode);
