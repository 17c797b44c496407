#!/usr/bin/env node
// Command name to command. The only file that sets the exit code and listens for signals; each command is in commands/.
import { Command, CommanderError } from 'commander';
import { benchCommand } from './commands/bench.ts';
import { compareCommand } from './commands/compare.ts';
import { doctorCommand } from './commands/doctor.ts';
import { evalCommand } from './commands/eval.ts';
import { exportCommand } from './commands/export.ts';
import { preproCommand } from './commands/prepro.ts';
import { replayCommand } from './commands/replay.ts';
import { sampleCommand } from './commands/sample.ts';
import { trainCommand } from './commands/train.ts';
import { Gpt2Error, ToldError } from './errors.ts';
import { asTyped } from './package-root.ts';

/** Signals that come this soon after the first are the same Ctrl-C, delivered by the terminal and again by npm. */
const sameSignalMilliseconds = 500;

/** What a run is asked to stop by, and the exit code that says so. */
const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129, EPIPE: 141 } as const;

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

function program(): Command {
  const root = new Command('gpt2')
    .description('GPT-2 training from TypeScript')
    .enablePositionalOptions()
    .showSuggestionAfterError(true)
    .addHelpText('after', '\nFirst steps:\n  gpt2 prepro tinyshakespeare\n  gpt2 train --steps 100\n');
  const commands = [
    preproCommand(),
    trainCommand(interruption),
    sampleCommand(),
    evalCommand(),
    compareCommand(),
    replayCommand(),
    benchCommand(),
    exportCommand(),
    doctorCommand(),
  ];
  for (const command of commands) root.addCommand(command as unknown as Command);
  for (const command of [root, ...root.commands, ...root.commands.flatMap(({ commands }) => commands)]) {
    command.exitOverride().option('--verbose', 'show where an error comes from');
    command.configureOutput({
      writeOut: (text) => process.stdout.write(asTyped(text)),
      writeErr: (text) => process.stderr.write(asTyped(text)),
    });
  }
  return root;
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

const root = program();
// A reader that leaves early (`train | head`): a run stops as for Ctrl-C, saved; anything else has nobody left to tell.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  if (!running) process.exit(exitCodes.EPIPE);
  running.abort(exitCodes.EPIPE);
});
try {
  await root.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--verbose'));
}
