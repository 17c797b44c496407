#!/usr/bin/env node
// Command name to command. The only file that sets the exit code and listens for signals; each command is in commands/.
import { Command, CommanderError } from 'commander';
import { compareCommand } from './commands/compare.ts';
import { preproCommand } from './commands/prepro.ts';
import { sampleCommand } from './commands/sample.ts';
import { trainCommand } from './commands/train.ts';
import { Gpt2Error } from './errors.ts';

/** Signals that come this soon after the first are the same Ctrl-C, delivered by the terminal and again by npm. */
const sameSignalMilliseconds = 500;

/** Ctrl-C and SIGTERM abort the returned signal, whose reason is the exit code; a second one exits at once. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  let first: number | undefined;
  const onSignal = (exitCode: number) => () => {
    const now = performance.now();
    if (first === undefined) {
      first = now;
      controller.abort(exitCode);
      process.stderr.write('\nstopping after this step (again: at once, unsaved)\n');
    } else if (now - first > sameSignalMilliseconds) {
      process.exit(exitCode);
    }
  };
  process.on('SIGINT', onSignal(130));
  process.on('SIGTERM', onSignal(143));
  return controller.signal;
}

function program(): Command {
  const root = new Command('gpt2')
    .description('GPT-2 training from TypeScript')
    .option('--verbose', 'show where an error comes from')
    .showSuggestionAfterError(true)
    .addHelpText('after', '\nFirst steps:\n  gpt2 prepro tinyshakespeare\n  gpt2 train --steps 100\n');
  const commands = [preproCommand(), trainCommand(interruption), sampleCommand(), compareCommand()];
  for (const command of commands) root.addCommand(command as unknown as Command);
  for (const command of [root, ...root.commands]) command.exitOverride();
  return root;
}

/** The exit code for what a command threw; prints its one line (commander has already printed its own). */
function report(error: unknown, verbose: boolean): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  if (error instanceof Gpt2Error) {
    process.stderr.write(`${verbose ? error.stack : error.message}\n`);
    return error.exitCode;
  }
  process.stderr.write(
    `${error instanceof Error ? error.stack : String(error)}\nthis is a defect of gpt2.ts, please report it\n`,
  );
  return 1;
}

const root = program();
// A reader that leaves early (`train | head`) ends the output, not the run's files.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit(1);
});
try {
  await root.parseAsync(process.argv);
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--verbose'));
}
