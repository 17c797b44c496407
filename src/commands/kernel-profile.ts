// The command `kernel profile`: runs the kernels of a folder under NVIDIA's profiler.
import type { Command } from 'commander';
import { profileKernels } from '../program.ts';
import { type LabFlags, labCommand, labOptions, printLine } from './kernel-test.ts';

const notes = `
It needs a GPU and ncu (Nsight Compute), which comes with the CUDA toolkit. Each kernel is measured once for each size that its op has in
a training step of d12 with a batch of 8 x 1024. docs/kernels.md explains ncu's figures.

Examples:
  npm run gpt2 -- kernel profile my-norm
  npm run gpt2 -- kernel profile my-norm --dtype bf16
`;

export const kernelProfileCommand = (): Command =>
  labCommand('profile', 'Profile kernels with ncu: what limits them, and what warps wait for')
    .addHelpText('after', notes)
    .action((folder: string, flags: LabFlags) => profileKernels(labOptions(folder, flags), printLine));
