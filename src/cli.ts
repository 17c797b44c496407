#!/usr/bin/env node
// Runs the program. The only file that sets the exit code and listens for signals; what there is to run is in
// commands/program.ts.
import { closeSync } from 'node:fs';
import { isatty } from 'node:tty';
import { CommanderError } from 'commander';
import { program } from './commands/program.ts';
import { Gpt2Error, ToldError } from './errors.ts';
import { asTyped } from './package-root.ts';

/** Signals that come this soon after the first are the same Ctrl-C, delivered by the terminal and again by npm. */
const sameSignalMilliseconds = 500;

/** What a run is asked to stop by, and the exit code that says so. A write to a terminal that was closed is EIO. */
const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129, EIO: 129, EPIPE: 141 } as const;

let running: AbortController | undefined;

/** The returned signal is aborted, its reason the exit code, when the run shall stop; a second demand exits at once. */
function interruption(how?: 'quiet'): AbortSignal {
  const controller = new AbortController();
  running = controller;
  let first: number | undefined;
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => {
      const now = performance.now();
      if (first === undefined) {
        first = now;
        controller.abort(exitCodes[name]);
        if (how !== 'quiet') process.stderr.write('\nstopping after this step (again: at once, unsaved)\n');
      } else if (now - first > sameSignalMilliseconds) {
        process.exit(exitCodes[name]);
      }
    });
  }
  return controller.signal;
}

/**
 * Nobody reads what is written (`train | head`, a closed terminal, a full disk): a run stops as for Ctrl-C, saved; anything else
 * has nobody left to tell.
 */
function stopUnread(stream: string, { code, message }: NodeJS.ErrnoException): void {
  if (running?.signal.aborted) return;
  const exitCode = code === 'EIO' || code === 'EPIPE' ? exitCodes[code] : 1;
  if (exitCode === 1) process.stderr.write(`cannot write to ${stream}: ${message}\n`);
  // What has failed already keeps its code.
  if (!running) process.exit(process.exitCode || exitCode);
  running.abort(exitCode);
}

/** The exit code for what a command threw; prints its one line (commander has already printed its own). */
function report(error: unknown, verbose: boolean): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof ToldError) return error.exitCode;
  if (error instanceof Gpt2Error) {
    process.stderr.write(`${verbose ? error.stack : asTyped(error.message)}\n`);
    return error.exitCode;
  }
  process.stderr.write(
    `${error instanceof Error ? error.stack : String(error)}\nthis is a defect of gpt2.ts, please report it\n`,
  );
  return 1;
}

const root = program(interruption);
process.stdout.on('error', (error) => stopUnread('standard output', error));
process.stderr.on('error', (error) => stopUnread('standard error', error));
const terminals = [0, 1, 2].filter(isatty);
process.on('exit', () => {
  // Node gives a terminal back as it found it, and aborts where one that was closed does not take it.
  for (const descriptor of terminals) if (!isatty(descriptor)) closeSync(descriptor);
});
try {
  await root.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--verbose'));
}
