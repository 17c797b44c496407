import { styleText } from 'node:util';
import { Command } from 'commander';
import { asTyped, type Check, examine, gpt2Error } from '../program.ts';

const examples = `
Examples:
  npm run gpt2 -- doctor            a line for each check, and its fix; exit code 1 if one failed
  npm run gpt2 -- doctor --json     the same as one JSON object
`;

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Check what training needs: Node, driver, GPUs, libraries, tools, disk, kernels')
    .option('--json', 'print one JSON object')
    .addHelpText('after', examples)
    .action(async ({ json = false }: { json?: boolean }) => {
      const checks: Check[] = [];
      for await (const check of examine()) {
        checks.push(check);
        if (!json) process.stdout.write(lineOf(check));
      }
      const needed = checks.filter(({ state }) => state === 'failed');
      if (json) process.stdout.write(`${JSON.stringify({ ok: needed.length === 0, checks })}\n`);
      if (needed.length > 0) {
        throw gpt2Error`${needed.length} of ${checks.length} checks failed: ${needed.map(({ name }) => name).join(', ')}`;
      }
    });
}

const signs = { ok: ['green', 'ok  '], warning: ['yellow', 'note'], failed: ['red', 'FAIL'] } as const;

function lineOf({ name, state, found, fix }: Check): string {
  const [color, sign] = signs[state];
  return `${styleText(color, sign)}  ${name.padEnd(20)}  ${found}\n${fix === undefined ? '' : `      ${' '.repeat(20)}  -> ${asTyped(fix)}\n`}`;
}
