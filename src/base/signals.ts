// Names the signals that save and end a training run, and their exit codes: 128 plus the signal's number.
import { constants } from 'node:os';

/** Demands: signals by which people and batch systems end a process. A second demand ends it at once. */
export const demands = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** A second demand within this time counts as the same Ctrl-C, which both the terminal and npm deliver. */
export const sameDemandMilliseconds = 500;

/** Whether a second demand ends this process. The command line sets it; a program handles signals itself. */
export const secondDemand = { endsProcess: false };

/** Announcements: signals that batch systems send some time before a demand. */
export const announcements = ['SIGUSR1', 'SIGUSR2', 'SIGXCPU', 'SIGALRM'] as const;

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** The demand or announcement that an exit code stands for. */
export const signalOf = (exitCode: unknown): NodeJS.Signals | undefined =>
  [...demands, ...announcements].find((signal) => exitCodeOf(signal) === exitCode);
