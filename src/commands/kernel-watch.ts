// The command `kernel watch`: tests kernels at every save, and on a GPU times them.
import type { Command } from 'commander';
import { watchKernels } from '../program.ts';
import { type LabFlags, labCommand, labOptions, printLine } from './kernel-test.ts';

/** Clears the terminal, and moves to its first line. */
const cleared = '\u001b[2J\u001b[3J\u001b[H';

const examples = `
Examples:
  npm run gpt2 -- kernel watch my-norm --dtype bf16
`;

export const kernelWatchCommand = (): Command =>
  labCommand('watch', 'Test kernels at every save, and on a GPU time them if they are right')
    .addHelpText('after', examples)
    .action(async (folder: string, flags: LabFlags) => {
      const onRound = () => {
        if (process.stdout.isTTY) process.stdout.write(cleared);
        printLine(`${folder} at ${new Date().toTimeString().slice(0, 8)}`);
      };
      await watchKernels(labOptions(folder, flags), { onLine: printLine, onRound });
    });
