import { Command, Option } from 'commander';
import { selectDevice } from '../index.ts';
import { ExitError, real, runProgram } from '../program.ts';
import { type SourceFlags, sourceOptions, withSourceOptions } from './kernel-build.ts';
import { type Numbers, numberOption, type Switches, type Texts, tableOption } from './option-of-table.ts';

const notes = `
With a GPU and nvcc, nvcc compiles the files. Otherwise the CPU emulates a GPU and reports races, accesses out of bounds and
other defects; docs/kernels.md lists them. Exit code: the program's, or 3 if that is 0 but a defect was reported.

Examples:
  npm run gpt2 -- kernel run sum.cu                                    the file's main
  npm run gpt2 -- kernel run main.cu kernels.cu --include inc -- 1024  two files, and an argument of the program
  npm run gpt2 -- kernel run sum.cu --device cpu --check all           check every block of every launch
`;

type Running = Texts<'device'> & Switches<'sanitize' | 'everyLaunch'> & Numbers<'timeLimit'>;
type Flags = SourceFlags & Running & { readonly check?: 'all' | 'none' };

export function kernelRunCommand(interruption: (how?: 'quiet') => AbortSignal): Command {
  const check = new Option(
    '--check <BLOCKS>',
    'blocks whose accesses are checked (default: samples of large launches)',
  );
  const command = new Command('run')
    .description('Run a CUDA program, host code and kernels, on a GPU or emulated on a CPU')
    .argument('<FILE...>', '.cu files, and .cpp and .c files to link; after --, arguments of the program')
    .addOption(tableOption('device'))
    .option('--sanitize', 'on a GPU: run under compute-sanitizer')
    .addOption(check.choices(['all', 'none']))
    .option('--every-launch', 'run launches again whose arguments and memory are those of an earlier one')
    .addOption(numberOption('--time-limit <S>', 'seconds that the program may run (default: none)', real(0.1, 86_400)));
  return withSourceOptions(command, false)
    .addHelpText('after', notes)
    .action(async (words: readonly string[], { define, include, device, ...flags }: Flags) => {
      const { rawArgs } = rootOf(command) as Command & { rawArgs: readonly string[] };
      const dash = rawArgs.indexOf('--');
      const args = dash < 0 ? [] : rawArgs.slice(dash + 1);
      const files = words.slice(0, words.length - args.length);
      if (files.length === 0) command.error("error: missing required argument 'FILE'");
      const code = await runProgram({
        ...{ files, args, ...sourceOptions({ define, include }), ...flags },
        ...{ device: selectDevice(device ?? 'auto').kind, signal: interruption('quiet') },
      });
      if (code !== 0) throw new ExitError(code);
    });
}

const rootOf = (command: Command): Command => (command.parent ? rootOf(command.parent) : command);
