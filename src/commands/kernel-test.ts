// The command `kernel test`: tests the kernels of a folder against the formulas of their ops.
import { Command, Option } from 'commander';
import { type Dtype, selectDevice } from '../index.ts';
import {
  asTyped,
  compileUntested,
  ExitError,
  jobsOf,
  jobsText,
  KernelProcess,
  type LabOptions,
  sanitize,
  testFile,
  testJobs,
} from '../program.ts';
import { tableOption, timeLimitOption } from './option-of-table.ts';

const examples = `
Examples:
  npm run gpt2 -- kernel test my-norm                every dtype that the card takes, on this machine's GPU
  npm run gpt2 -- kernel test my-norm --sanitize     find bad accesses and races
  npm run gpt2 -- kernel test add.cu --expect add.ts  a file's solve function against the outputs that add.ts expects

Exit code: 1 if anything is wrong.
`;

export interface LabFlags {
  readonly device?: string;
  readonly dtype?: Dtype;
  readonly timeLimit: number;
}

/** The argument and options that `test`, `bench`, `watch` and `profile` share. */
export const labCommand = (name: string, description: string): Command =>
  new Command(name)
    .description(description)
    .argument('<FOLDER>', 'folder with a card.ts or card.mjs')
    .addOption(tableOption('device'))
    .addOption(tableOption('dtype', { default: { text: 'each that the card takes' } }))
    .addOption(timeLimitOption());

export const labOptions = (folder: string, { device, dtype, timeLimit }: LabFlags): LabOptions => ({
  ...{ folder, device: selectDevice(device ?? 'auto'), dtype, seconds: timeLimit },
});

export const printLine = (line: string): void => void process.stdout.write(asTyped(`${line}\n`));

export const kernelTestCommand = (): Command =>
  labCommand('test', 'Test kernels against the formulas of their ops')
    .option('--expect <FILE>', 'test a .cu file instead of a folder; FILE gives inputs and expected outputs')
    .option('--all-sizes', 'also sizes whose formulas take seconds; on a CPU, sizes over 50,000 elements')
    .addHelpText('after', examples)
    .addOption(new Option('--sanitize', "run them under compute-sanitizer's memcheck, racecheck and initcheck"))
    .action(test);

interface Flags extends LabFlags {
  readonly allSizes?: boolean;
  readonly sanitize?: boolean;
  readonly expect?: string;
}

async function test(folder: string, flags: Flags): Promise<void> {
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
