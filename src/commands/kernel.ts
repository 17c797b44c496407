import { Command } from 'commander';
import { Gpt2Error } from '../index.ts';
import { findCards, labOps, naiveKernels, newKernel } from '../program.ts';
import { kernelBuildCommand } from './kernel-build.ts';
import { kernelBenchCommand, kernelProfileCommand, kernelTestCommand, kernelWatchCommand } from './kernel-lab.ts';
import { kernelRunCommand } from './kernel-run.ts';
import { kernelShowCommand } from './kernel-show.ts';
import { repeated } from './option-of-table.ts';

const examples = `
Examples:
  npm run gpt2 -- kernel list                                      ops with their formulas; cards below this folder
  npm run gpt2 -- kernel new my-norm --op norm_forward.layernorm   a folder with a naive kernel to start from
  npm run gpt2 -- kernel test my-norm                              against the op's formula, on this machine's GPU
  npm run gpt2 -- kernel bench my-norm                             ms and share of the bound, compared with ours
  npm run gpt2 -- kernel watch my-norm                             both, at every save
  npm run gpt2 -- kernel profile my-norm                           what limits it and what warps wait for, by ncu
  npm run gpt2 -- kernel show my-norm                              registers, spills, occupancy; PTX and SASS
  npm run gpt2 -- kernel build gelu.cu                             compile for this machine's GPU, as gelu.cubin
  npm run gpt2 -- kernel run sum.cu                                a program's main, on a GPU or emulated on a CPU

docs/kernels.md has more.
`;

const newExamples = `
Examples:
  npm run gpt2 -- kernel new my-norm --op norm_forward.layernorm
  npm run gpt2 -- kernel new my-gelu --op gelu_forward --op gelu_backward
`;

export function kernelCommand(interruption: (how?: 'quiet') => AbortSignal): Command {
  const list = new Command('list')
    .description('List the ops that a kernel can compute, and the kernels below this folder')
    .addHelpText('after', '\nExamples:\n  npm run gpt2 -- kernel list\n')
    .action(listKernels);
  const start = new Command('new')
    .description('Start a folder with a naive kernel of an op, its card and a README')
    .argument('<FOLDER>', 'folder to make')
    .requiredOption('--op <NAME>', 'op, as in `gpt2 kernel list`; repeatable', repeated)
    .addHelpText('after', newExamples)
    .action((folder: string, { op }: { op: string[] }) => {
      const files = newKernel(folder, op);
      process.stdout.write(`wrote ${files.join(', ')}\n`);
    });
  return new Command('kernel')
    .description('Test, time, profile and run CUDA kernels that you write')
    .addHelpText('after', examples)
    .addCommand(list)
    .addCommand(start)
    .addCommand(kernelTestCommand())
    .addCommand(kernelBenchCommand())
    .addCommand(kernelWatchCommand())
    .addCommand(kernelProfileCommand())
    .addCommand(kernelShowCommand())
    .addCommand(kernelBuildCommand())
    .addCommand(kernelRunCommand(interruption));
}

async function listKernels(): Promise<void> {
  const width = Math.max(...labOps().map(({ op }) => op.length));
  const lines = labOps().map(({ op, formula }) => `  ${op.padEnd(width)}  ${formula}`);
  const naive = new Set(naiveKernels().map(({ op }) => op));
  const without = labOps().filter(({ op }) => !naive.has(op));
  lines.unshift('ops:');
  lines.push(`kernel new starts from a naive kernel of each, except ${without.map(({ op }) => op).join(', ')}`);
  const cards = await findCards(process.cwd());
  lines.push('', cards.length > 0 ? 'kernels below this folder:' : 'there are no kernels below this folder');
  const widest = Math.max(0, ...cards.map(({ folder }) => folder.length));
  for (const { folder, ops } of cards) {
    lines.push(`  ${folder.padEnd(widest)}  ${ops instanceof Gpt2Error ? ops.message : ops.join(', ')}`);
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}
