import { Command, Option } from 'commander';
import { loadCards, type TrainOptions } from '../index.ts';
import { readSource, showKernels, usageError, whole } from '../program.ts';
import { gpuOption, ownGpu, type SourceFlags, sourceOptions, withSourceOptions } from './kernel-build.ts';
import { type Numbers, numberOption, type Switches, type Texts, tableOption } from './option-of-table.ts';

const notes = `
Without --ptx or --sass it prints a table: registers, shared memory and spills of each kernel, its launches in a training step of d12, how
many blocks and warps one multiprocessor (SM) of the GPU holds, and what limits them. No GPU is needed. docs/kernels.md has more.

Examples:
  npm run gpt2 -- kernel show my-norm                                     for this machine's GPU
  npm run gpt2 -- kernel show my-norm --gpu 9.0 --dtype bf16              for an H100
  npm run gpt2 -- kernel show my-norm/layernorm.cu --gpu 9.0 --block 128  a file, without its card
  npm run gpt2 -- kernel show my-norm --gpu 9.0 --ptx --kernel layernorm_forward
`;

type Views = Texts<'kernel'> & Switches<'ptx' | 'sass'>;
type Flags = SourceFlags & Views & Texts<'gpu'> & Numbers<'block' | 'shared'> & Pick<TrainOptions, 'dtype'>;

const sharedHelp = 'of a file: dynamic shared memory of a block (default: 0)';

export function kernelShowCommand(): Command {
  const command = new Command('show')
    .description('Show what the compiler made of kernels')
    .argument('<FOLDER|FILE>', 'folder with a card.ts or card.mjs, or a .cu file')
    .addOption(gpuOption())
    .addOption(tableOption('dtype', { default: { text: 'each that the card takes; of a listing the first' } }))
    .option('--kernel <NAME>', 'this kernel alone (default: those that the card launches; all of a file)')
    .option('--registers', 'registers, memory, spills and occupancy; the default')
    .addOption(new Option('--ptx', "PTX, with the source's lines between").conflicts(['registers', 'sass']))
    .addOption(new Option('--sass', "SASS, the GPU's instructions; needs nvdisasm").conflicts('registers'))
    .addOption(numberOption('--block <N>', 'of a file: threads in a block (default: 256)', whole(1, 1024)))
    .addOption(numberOption('--shared <BYTES>', sharedHelp, whole(0, 2 ** 20)));
  return withSourceOptions(command)
    .addHelpText('after', notes)
    .action(async (path: string, { gpu, dtype, kernel, ptx, sass, block, shared, ...flags }: Flags) => {
      const file = { block, shared, ...sourceOptions(flags) };
      const isFile = path.endsWith('.cu');
      // Load the file or the card first: if it is missing, this is reported before a missing GPU.
      if (isFile) readSource(path);
      else await loadCards(path);
      if (!isFile && Object.values(file).some((value) => value !== undefined)) {
        throw usageError`--block, --shared, --define, --instantiate and --include are for a .cu file; the card of ${path} says them`;
      }
      const view = ptx ? 'ptx' : sass ? 'sass' : 'figures';
      const onLine = (line: string) => void process.stdout.write(`${line}\n`);
      await showKernels({ path, target: gpu ?? ownGpu(), view, dtype, kernel, file }, onLine);
    });
}
