// Names the signals that save and end a training run, and their exit codes: 128 plus the signal's number.
import { constants } from 'node:os';

/** Sent by people and batch systems to end a process. A second one ends it at once. */
export const demands = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** A demand this soon after the first is the same Ctrl-C: both the terminal and npm deliver it. */
export const sameDemandMilliseconds = 500;

/** Whether a second demand ends this process. The command line sets it; a program handles signals itself. */
export const secondDemand = { endsProcess: false };

/** Sent by batch systems before the end; a demand follows. */
export const announcements = ['SIGUSR1', 'SIGUSR2', 'SIGXCPU', 'SIGALRM'] as const;

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** The demand or announcement that an exit code stands for. */
export const signalOf = (exitCode: unknown): NodeJS.Signals | undefined =>
  [...demands, ...announcements].find((signal) => exitCodeOf(signal) === exitCode);
