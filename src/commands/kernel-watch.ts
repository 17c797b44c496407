// The command `kernel watch`: tests kernels at every save, and on a GPU times them.
import type { Command } from 'commander';
import { checkNeeds, defaultPort, openLivePage, optionTable, watchKernels } from '../program.ts';
import { type LabFlags, labCommand, labOptions, printLine } from './kernel-test.ts';
import { tableOption } from './option-of-table.ts';

/** Clears the terminal, and moves to its first line. */
const cleared = '\u001b[2J\u001b[3J\u001b[H';

const examples = `
Examples:
  npm run gpt2 -- kernel watch my-norm --dtype bf16
  npm run gpt2 -- kernel watch my-norm --serve          also in a browser, at http://127.0.0.1:${defaultPort}/
`;

interface Flags extends LabFlags {
  readonly serve?: number;
  readonly serveHost?: string;
}

export const kernelWatchCommand = (): Command =>
  labCommand('watch', 'Test kernels at every save, and on a GPU time them if they are right')
    .addOption(tableOption('serve', { help: `show them in a browser too (PORT 0: any free; absent: ${defaultPort})` }))
    .addOption(tableOption('serveHost'))
    .addHelpText('after', examples)
    .action(async (folder: string, { serve, serveHost, ...flags }: Flags) => {
      checkNeeds({ serve, serveHost });
      const options = labOptions(folder, flags);
      const notices: string[] = [];
      const notice = (text: string) => {
        notices.push(text);
        printLine(text);
      };
      const host = serveHost ?? optionTable.serveHost.default;
      const page =
        serve === undefined ? undefined : await openLivePage({ port: serve, host, shows: 'kernels' }, notice);
      const onRound = () => {
        if (process.stdout.isTTY) process.stdout.write([cleared, ...notices.map((text) => `${text}\n`)].join(''));
        printLine(`${folder} at ${new Date().toTimeString().slice(0, 8)}`);
      };
      await watchKernels(options, { onLine: printLine, onRound, onChange: page?.show }).finally(page?.close);
    });
