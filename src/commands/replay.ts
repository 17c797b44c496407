import { Command } from 'commander';
import { gpt2Error, type ReplayOptions, replay } from '../program.ts';
import { tableOption } from './option-of-table.ts';

const examples = `
Examples:
  npm run gpt2 -- replay runs/d12/captures/step-00000120
  npm run gpt2 -- replay runs/d12/captures/step-00000120 --dtype fp32     to see if the precision is the cause
  npm run gpt2 -- replay runs/d12/captures/step-00000120 --kernel my-norm
                                                                          a run with --kernel: with its kernels, then without

A run writes a capture when a loss or gradient is not finite: weights, tokens and results.
Exit code: 0 if the results are equal to the last bit, 1 if not. Another device, dtype or code path gives other bits.
`;

export function replayCommand(): Command {
  const ofCapture = { default: { text: "the capture's" } };
  return new Command('replay')
    .description('Recompute a captured step')
    .argument('<CAPTURE>', 'folder that training wrote: <RUN>/captures/step-...')
    .addOption(tableOption('device', ofCapture))
    .addOption(tableOption('dtype', ofCapture))
    .addOption(tableOption('threads'))
    .addOption(tableOption('kernels'))
    .addHelpText('after', examples)
    .action(async (path: string, { kernel, ...options }: ReplayOptions & { kernel?: string[] }) => {
      const { capture, loss, norm, finding, on, differences } = await replay(path, { ...options, kernels: kernel });
      process.stdout.write(`step ${capture.manifest.step} on ${on}: loss ${loss}, norm ${norm}\n`);
      process.stdout.write(`${finding ?? 'every number is finite'}\n`);
      if (differences.length === 0) {
        process.stdout.write('equal to the capture, to the last bit\n');
        return;
      }
      const { library, codePath, dtype } = capture.manifest;
      throw gpt2Error`the results differ from the capture on ${library} ${codePath} ${dtype}: ${differences.join('; ')}`;
    });
}
