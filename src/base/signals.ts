// Names the signals that save and end a training run, and their exit codes: 128 plus the signal's number.
import { constants } from 'node:os';

/** Signals by which people and batch systems ask a process to end ("demands"). A second demand ends the process at once. */
export const demands = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** For this time after the first demand, a further demand is no second demand: for one Ctrl-C, terminal and npm both send a signal. */
export const sameDemandMilliseconds = 500;

/** Whether a second signal to end stops this process at once. Only the command line sets it; API users handle signals themselves. */
export const secondDemand = { endsProcess: false };

/** Signals that batch systems send some time before a signal to end ("announcements"). */
export const announcements = ['SIGUSR1', 'SIGUSR2', 'SIGXCPU', 'SIGALRM'] as const;

export const exitCodeOf = (signal: NodeJS.Signals): number => 128 + constants.signals[signal];

/** The demand or announcement that ended a process with this exit code; undefined if the exit code stands for neither. */
export const signalOf = (exitCode: unknown): NodeJS.Signals | undefined =>
  [...demands, ...announcements].find((signal) => exitCodeOf(signal) === exitCode);
