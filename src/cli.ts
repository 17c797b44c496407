#!/usr/bin/env node
// Runs the program. Only this file sets the exit code and listens for signals; commands/command-line.ts builds the commands.
import type { CommanderError } from 'commander';
import { ExitError, Gpt2Error } from './base/errors.ts';
import { packageRoot } from './base/package-root.ts';
import { announcements, demands, exitCodeOf, sameDemandMilliseconds, secondDemand } from './base/signals.ts';
import { speakFlags } from './base/wording.ts';

/** Exit codes for failed writes: EIO means that the terminal was closed, EPIPE that the reader of a pipe has ended. */
const exitCodes = { EIO: exitCodeOf('SIGHUP'), EPIPE: exitCodeOf('SIGPIPE') } as const;

interface Running {
  readonly controller: AbortController;
  readonly isQuiet: boolean;
  /** Time of the first signal to stop, in milliseconds; undefined before it. */
  firstDemand: number | undefined;
}

let running: Running | undefined;

/** Makes SIGUSR1 end the program while no run handles the signal, as usual on Unix. By default Node would open a debugger port. */
const endByUser1 = () => void process.kill(process.pid, 'SIGUSR1');
process.once('SIGUSR1', endByUser1);

/**
 * Returns an AbortSignal that is aborted when the run must stop; its reason is the exit code. The second signal of `demands`, such as
 * a second Ctrl-C, ends the process at once. Signals of `announcements` stop the run too, but count neither as first nor as second:
 * Slurm sends SIGUSR1, and then SIGTERM while the run is being saved. A later call of this function replaces the AbortSignal.
 */
function interruption(how?: 'quiet'): AbortSignal {
  if (!running) listen();
  running = { controller: new AbortController(), isQuiet: how === 'quiet', firstDemand: undefined };
  return running.controller.signal;
}

/** Adds the signal listeners. They are never removed: removing the last one would lose a signal that Node has not yet delivered. */
function listen(): void {
  for (const name of demands) {
    process.on(name, () => {
      const now = performance.now();
      running!.firstDemand ??= now;
      stop(name, ' (send it again to stop at once, unsaved)');
      if (now - running!.firstDemand > sameDemandMilliseconds) process.exit(exitCodeOf(name));
    });
  }
  for (const name of announcements) process.on(name, () => stop(name, `, on ${name}`));
  process.off('SIGUSR1', endByUser1);
  secondDemand.endsProcess = true;
}

function stop(name: NodeJS.Signals, hint: string): void {
  const { controller, isQuiet } = running!;
  if (controller.signal.aborted) return;
  controller.abort(exitCodeOf(name));
  if (!isQuiet) process.stderr.write(`\nstopping${hint}\n`);
}

/**
 * Handles output that cannot be written (`train | head`, a closed terminal, a full disk). A run is saved and stops, as after Ctrl-C;
 * any other command ends.
 */
function stopUnread(stream: string, { code, message }: NodeJS.ErrnoException): void {
  if (running?.controller.signal.aborted) return;
  const exitCode = code === 'EIO' || code === 'EPIPE' ? exitCodes[code] : 1;
  if (exitCode === 1) process.stderr.write(`cannot write to ${stream}: ${message}\n`);
  // If the command has already failed, its exit code stays.
  if (!running) process.exit(process.exitCode || exitCode);
  running.controller.abort(exitCode);
}

/** Prints an error of a command, unless the package commander has printed it. Returns the exit code. */
function report(error: unknown, verbose: boolean): number {
  if ((error as Error).name === 'CommanderError') return (error as CommanderError).exitCode === 0 ? 0 : 2;
  if (error instanceof ExitError) return error.exitCode;
  if (error instanceof Gpt2Error) {
    process.stderr.write(`${verbose ? error.stack : error.message}\n`);
    return error.exitCode;
  }
  process.stderr.write(
    `${error instanceof Error ? error.stack : String(error)}\nthis is a defect of gpt2.ts, please report it\n`,
  );
  return 1;
}

/** Prints the advice to run `npm ci` if an npm package is missing; throws any other error again. */
function reportMissing(error: NodeJS.ErrnoException): never {
  const name = error.code === 'ERR_MODULE_NOT_FOUND' && /package '([^']+)'/.exec(error.message)?.[1];
  if (!name) throw error;
  process.stderr.write(`the package ${name} is not installed: run \`npm ci\` in ${packageRoot}\n`);
  process.exit(1);
}

speakFlags();
// The commands are loaded after SIGUSR1 has a handler, because loading takes time in which the signal may arrive.
const { program } = await import('./commands/command-line.ts').catch(reportMissing);
const root = program(interruption);
process.stdout.on('error', (error) => stopUnread('standard output', error));
process.stderr.on('error', (error) => stopUnread('standard error', error));
try {
  await root.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--verbose'));
}
