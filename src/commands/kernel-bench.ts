// The command `kernel bench`: times the kernels of a folder and the library's.
import type { Command } from 'commander';
import { benchJobs, jobsOf, KernelProcess } from '../program.ts';
import { type LabFlags, labCommand, labOptions, printLine } from './kernel-test.ts';
import { count, numberOption } from './option-of-table.ts';

const notes = `
Examples:
  npm run gpt2 -- kernel bench my-norm
  npm run gpt2 -- kernel bench my-norm --dtype bf16

Sizes and tensors are those of a training step of d12 with sequences of 1024 tokens (on a CPU: of a tiny model). The bound is the longer
of two times: operations at the rate of the library's largest matmul, bytes (each once) at that of a copy. Each version of a kernel is
kept in the folder's .gpt2-bench.jsonl and shown again below the next ones.
`;

export const kernelBenchCommand = (): Command =>
  labCommand('bench', 'Compare the times of kernels with ours and with earlier versions')
    .addOption(numberOption('--batch <B>', 'sequences in the step (default: 8; on a CPU 2)', count))
    .addHelpText('after', notes)
    .action(async (folder: string, { batch, ...flags }: LabFlags & { batch?: number }) => {
      const options = { ...labOptions(folder, flags), batch };
      if (options.device.kind === 'cpu') {
        printLine('on a CPU these are times of the emulator: they say nothing about a GPU');
      }
      using child = new KernelProcess(options);
      await benchJobs(child, await jobsOf(child, options), options, { onLine: printLine });
    });
