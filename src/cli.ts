#!/usr/bin/env node
// Runs the program. Only this file sets the exit code and listens for signals; commands/command-line.ts builds the commands.
import type { CommanderError } from 'commander';
import { ExitError, Gpt2Error } from './base/errors.ts';
import { packageRoot } from './base/package-root.ts';
import { announcements, demands, exitCodeOf, sameDemandMilliseconds, secondDemand } from './base/signals.ts';
import { speakFlags } from './base/wording.ts';

/** A write to a closed terminal fails with EIO. */
const exitCodes = { EIO: exitCodeOf('SIGHUP'), EPIPE: exitCodeOf('SIGPIPE') } as const;

interface Running {
  readonly controller: AbortController;
  readonly isQuiet: boolean;
  /** The time of the first demand to stop, in milliseconds. */
  firstDemand: number | undefined;
}

let running: Running | undefined;

/** Without a run, SIGUSR1 ends the program, as in other programs; by default Node would open a debugger port. */
const endByUser1 = () => void process.kill(process.pid, 'SIGUSR1');
process.once('SIGUSR1', endByUser1);

/**
 * Returns a signal that is aborted when the run must stop; its reason is the exit code. A second demand exits at once. An
 * announcement (SIGUSR1) never does, and does not count as the first demand: Slurm sends SIGUSR1, then SIGTERM while the run is
 * saved. A later call replaces the signal.
 */
function interruption(how?: 'quiet'): AbortSignal {
  if (!running) listen();
  running = { controller: new AbortController(), isQuiet: how === 'quiet', firstDemand: undefined };
  return running.controller.signal;
}

/** Listens only once: when its last listener is removed, Node drops a signal that has arrived but is not yet delivered. */
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
 * Handles output that cannot be written (`train | head`, a closed terminal, a full disk): a run is saved and stops, as after
 * Ctrl-C; other commands end.
 */
function stopUnread(stream: string, { code, message }: NodeJS.ErrnoException): void {
  if (running?.controller.signal.aborted) return;
  const exitCode = code === 'EIO' || code === 'EPIPE' ? exitCodes[code] : 1;
  if (exitCode === 1) process.stderr.write(`cannot write to ${stream}: ${message}\n`);
  // A failed command keeps its exit code.
  if (!running) process.exit(process.exitCode || exitCode);
  running.controller.abort(exitCode);
}

/** Prints an error of a command, unless commander has printed it, and returns the exit code. */
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

/** Prints advice in a clone whose packages are not installed. */
function reportMissing(error: NodeJS.ErrnoException): never {
  const name = error.code === 'ERR_MODULE_NOT_FOUND' && /package '([^']+)'/.exec(error.message)?.[1];
  if (!name) throw error;
  process.stderr.write(`the package ${name} is not installed: run \`npm ci\` in ${packageRoot}\n`);
  process.exit(1);
}

speakFlags();
// Loaded after SIGUSR1 has a handler, because loading takes time.
const { program } = await import('./commands/command-line.ts').catch(reportMissing);
const root = program(interruption);
process.stdout.on('error', (error) => stopUnread('standard output', error));
process.stderr.on('error', (error) => stopUnread('standard error', error));
try {
  await root.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--verbose'));
}
