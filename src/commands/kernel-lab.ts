// The commands `kernel test`, `bench`, `watch` and `profile`: they run the kernels of a folder, in a separate process.
import { Command, Option } from 'commander';
import { selectDevice, type TrainOptions } from '../index.ts';
import {
  asTyped,
  benchJobs,
  checkNeeds,
  compileUntested,
  defaultPort,
  ExitError,
  jobsOf,
  jobsText,
  KernelProcess,
  type LabOptions,
  openLivePage,
  optionTable,
  profileKernels,
  sanitize,
  testFile,
  testJobs,
  watchKernels,
} from '../program.ts';
import { count, numberOption, type Switches, type Texts, tableOption, timeLimitOption } from './option-of-table.ts';

const testExamples = `
Examples:
  npm run gpt2 -- kernel test my-norm                  every dtype that the card takes, on this machine's GPU
  npm run gpt2 -- kernel test my-norm --sanitize       find bad accesses and races
  npm run gpt2 -- kernel test add.cu --expect add.mjs  a file's solve function against the outputs that add.mjs expects

Exit code: 1 if anything is wrong.
`;

interface LabFlags extends Pick<TrainOptions, 'device' | 'dtype'> {
  readonly timeLimit: number;
}

/** The argument and options that `test`, `bench`, `watch` and `profile` share. */
const labCommand = (name: string, description: string): Command =>
  new Command(name)
    .description(description)
    .argument('<FOLDER>', 'folder with a card.ts or card.mjs')
    .addOption(tableOption('device'))
    .addOption(tableOption('dtype', { default: { text: 'each that the card takes' } }))
    .addOption(timeLimitOption());

const labOptions = (folder: string, { device, dtype, timeLimit }: LabFlags): LabOptions => ({
  ...{ folder, device: selectDevice(device ?? 'auto'), dtype, seconds: timeLimit },
});

const printLine = (line: string): void => void process.stdout.write(asTyped(`${line}\n`));

const testHelp = "Test kernels against the formulas of their ops, or a .cu file's function against expected outputs";

export const kernelTestCommand = (): Command =>
  labCommand('test', testHelp)
    .option('--expect <FILE>', 'test a .cu file (FOLDER), such as a solve of LeetGPU, by the cases in FILE')
    .option('--all-sizes', 'also sizes whose formulas take seconds; on a CPU, sizes over 50,000 elements')
    .addHelpText('after', testExamples)
    .addOption(new Option('--sanitize', "run them under compute-sanitizer's memcheck, racecheck and initcheck"))
    .action(test);

type TestFlags = LabFlags & Switches<'allSizes' | 'sanitize'> & Texts<'expect'>;

async function test(folder: string, flags: TestFlags): Promise<void> {
  const options = labOptions(folder, flags);
  if (flags.expect !== undefined) {
    let wrong = 0;
    for await (const { name, isRight, lines } of testFile(folder, flags.expect, options.device.kind, flags.timeLimit)) {
      printLine([`${name}  ${lines[0]}`, ...lines.slice(1)].join('\n'));
      if (!isRight) wrong++;
    }
    if (wrong === 0) return printLine('all right');
    throw new ExitError(1);
  }
  using child = new KernelProcess(options);
  const jobs = await jobsOf(child, options);
  if (flags.sanitize) {
    child.close();
    const found = await sanitize(options, jobs, printLine);
    if (found.length === 0) return printLine(`nothing found: ${jobsText(jobs)}`);
    printLine(`found something: ${found.join(', ')}`);
    throw new ExitError(1);
  }
  const wrong = [
    ...(await testJobs(child, jobs, options, { allSizes: flags.allSizes, onLine: printLine })),
    ...(await compileUntested(child, options, printLine)),
  ];
  if (wrong.length === 0) return printLine(`all right: ${jobsText(jobs)}`);
  printLine(`wrong: ${jobsText(wrong)}`);
  throw new ExitError(1);
}

const benchNotes = `
Examples:
  npm run gpt2 -- kernel bench my-norm
  npm run gpt2 -- kernel bench my-norm --dtype bf16

Sizes and tensors are those of a training step of d12 with sequences of 1024 tokens (on a CPU: of a tiny model). The bound is the longer
of two times: operations at the rate of the library's largest matmul, bytes (each once) at that of a copy. Each version of a kernel is
kept in the folder's .gpt2-bench.jsonl and shown again below the next ones.
`;

export const kernelBenchCommand = (): Command =>
  labCommand('bench', 'Compare the times of kernels with the library and with earlier versions')
    .addOption(numberOption('--batch <B>', 'sequences in the step (default: 8; on a CPU 2)', count))
    .addHelpText('after', benchNotes)
    .action(async (folder: string, { batch, ...flags }: LabFlags & { batch?: number }) => {
      const options = { ...labOptions(folder, flags), batch };
      if (options.device.kind === 'cpu') {
        printLine('on a CPU these are times of the emulator: they say nothing about a GPU');
      }
      using child = new KernelProcess(options);
      await benchJobs(child, await jobsOf(child, options), options, { onLine: printLine });
    });

/** ANSI sequence that clears the terminal and its scrollback, and moves the cursor to the top left. */
const cleared = '\u001b[2J\u001b[3J\u001b[H';

const watchExamples = `
Examples:
  npm run gpt2 -- kernel watch my-norm --dtype bf16
  npm run gpt2 -- kernel watch my-norm --serve          also in a browser, at http://127.0.0.1:${defaultPort}/
`;

type WatchFlags = LabFlags & Pick<TrainOptions, 'serve' | 'serveHost'>;

export const kernelWatchCommand = (): Command =>
  labCommand('watch', 'Test kernels at every save, and on a GPU time them if they are right')
    .addOption(tableOption('serve', { help: `show them in a browser too (PORT 0: any free; absent: ${defaultPort})` }))
    .addOption(tableOption('serveHost'))
    .addHelpText('after', watchExamples)
    .action(async (folder: string, { serve, serveHost, ...flags }: WatchFlags) => {
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

const profileNotes = `
It needs a GPU and ncu (Nsight Compute), which comes with the CUDA toolkit. Each kernel is measured once for each size that its op has in
a training step of d12 with a batch of 8 x 1024. docs/kernels.md explains ncu's figures.

Examples:
  npm run gpt2 -- kernel profile my-norm
  npm run gpt2 -- kernel profile my-norm --dtype bf16
`;

export const kernelProfileCommand = (): Command =>
  labCommand('profile', 'Profile kernels with ncu: what limits them, and what warps wait for')
    .addHelpText('after', profileNotes)
    .action((folder: string, flags: LabFlags) => profileKernels(labOptions(folder, flags), printLine));
