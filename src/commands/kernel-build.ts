import { copyFileSync } from 'node:fs';
import { basename } from 'node:path';
import { Command, Option } from 'commander';
import { Device } from '../index.ts';
import { compiledFile, explained, readSource, usageError } from '../program.ts';
import { type Lists, repeated, type Switches, type Texts } from './option-of-table.ts';

const examples = `
A program loads the file with loadKernels(device, PATH), and then needs no compiler. docs/kernels.md has more.

Examples:
  npm run gpt2 -- kernel build gelu.cu                             for this machine's GPU, as gelu.cubin
  npm run gpt2 -- kernel build gelu.cu --gpu 8.0 --out a100.cubin  for an A100; no GPU needed
  npm run gpt2 -- kernel build gelu.cu --cpu                       for this machine's CPU, as gelu.so
`;

export type SourceFlags = Lists<'instantiate' | 'include'> & { readonly define?: Readonly<Record<string, string>> };

type Flags = SourceFlags & Texts<'out' | 'gpu'> & Switches<'cpu'>;

export const gpuOption = (): Option =>
  new Option('--gpu <X.Y>', "compute capability of the GPU, as 9.0 (default: this machine's)");

export function withSourceOptions(command: Command, instantiates = true): Command {
  command
    .option('--define <NAME=VALUE>', 'macro; repeatable', defined)
    .option('--include <DIR>', 'folder in which #include looks; repeatable', repeated);
  if (!instantiates) return command;
  const help = 'kernel with template arguments to make, as scale<float, 256>; repeatable';
  return command.option('--instantiate <KERNEL>', help, repeated);
}

export const sourceOptions = ({ define: defines, instantiate, include: includes }: SourceFlags) => ({
  ...{ defines, instantiate, includes },
});

export function kernelBuildCommand(): Command {
  const command = new Command('build')
    .description('Compile a file of CUDA kernels')
    .argument('<FILE>', 'the .cu file')
    .option('--out <PATH>', 'file to write (default: FILE with .cubin, or .so for a CPU, in this folder)')
    .addOption(gpuOption())
    .addOption(new Option('--cpu', 'for a CPU, which emulates a GPU').conflicts('gpu'));
  return withSourceOptions(command)
    .addHelpText('after', examples)
    .action((file: string, { out, gpu, cpu, ...flags }: Flags) => {
      // Read the file first: a missing file is reported before a missing GPU or compiler.
      readSource(file);
      const path = out ?? `${basename(file).replace(/\.cu$/, '')}.${cpu ? 'so' : 'cubin'}`;
      const source = { file, ...sourceOptions(flags), checks: false };
      const made = compiledFile(source, cpu ? 'cpu' : (gpu ?? ownGpu()));
      explained(`cannot write ${path}`, 'name another file with --out', () => copyFileSync(made, path));
      process.stdout.write(`wrote ${path}\n`);
    });
}

function defined(text: string, before: Readonly<Record<string, string>> = {}): Record<string, string> {
  const [, name, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
  if (name === undefined) throw usageError`--define takes NAME=VALUE, not ${JSON.stringify(text)}`;
  return { ...before, [name]: value! };
}

/** Compute capability of this machine's GPU, such as "9.0". @throws Gpt2Error without a GPU, with the advice to name --gpu */
export const ownGpu = (): string =>
  explained("cannot tell this machine's GPU", 'or give its compute capability, as --gpu 9.0', () => {
    using device = Device.open({ kind: 'cuda' });
    return device.description.computeCapability!;
  });
