// `replay`: recomputes a captured step and compares the results.
import { Command } from 'commander';
import { Gpt2Error } from '../index.ts';
import { type ReplayOptions, replay } from '../program.ts';
import { tableOption } from './option-of-table.ts';

const examples = `
Examples:
  npm run gpt2 -- replay runs/d12/captures/step-00000120
  npm run gpt2 -- replay runs/d12/captures/step-00000120 --dtype fp32     whether it is the precision's fault

A run that meets a loss or gradient that is not finite writes such a capture: weights, tokens, and what came out of them.
Exit code 0 if the same came out to the last bit, 1 if not; on another device, dtype or code path it cannot.
`;

export function replayCommand(): Command {
  const ofCapture = { default: { text: "the capture's" } };
  return new Command('replay')
    .description('Compute a captured step again')
    .argument('<CAPTURE>', 'folder that training wrote: <RUN>/captures/step-...')
    .addOption(tableOption('device', ofCapture))
    .addOption(tableOption('dtype', ofCapture))
    .addOption(tableOption('threads'))
    .addHelpText('after', examples)
    .action(async (path: string, options: ReplayOptions) => {
      const { capture, loss, norm, finding, on, differences } = await replay(path, options);
      process.stdout.write(`step ${capture.manifest.step} on ${on}: loss ${loss}, norm ${norm}\n`);
      process.stdout.write(`${finding ?? 'every number is finite'}\n`);
      if (differences.length === 0) {
        process.stdout.write('the same as captured, to the last bit\n');
        return;
      }
      const { library, codePath, dtype } = capture.manifest;
      throw new Gpt2Error(`not what was captured on ${library} ${codePath} ${dtype}: ${differences.join('; ')}`);
    });
}
