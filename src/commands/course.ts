// The command `course`: exercises in writing CUDA kernels, and their score.
import { Command } from 'commander';
import { type CheckedExercise, checkCourse, ExitError, startCourse } from '../program.ts';
import { numberOption } from './number-option.ts';

const examples = `
Examples:
  npm run gpt2 -- course start                 copy the exercises to my-course
  npm run gpt2 -- course check                 which of them are solved, and what is wrong in the others

An exercise is a .cu file that says what is missing, and where. kernels/course explains how the kernels of GPT-2 are written.
`;

const folderHelp = 'folder of your exercises';

export function courseCommand(): Command {
  const start = new Command('start')
    .description('Copy the exercises of the course to a folder of your own')
    .argument('[FOLDER]', folderHelp, 'my-course')
    .addHelpText('after', '\nExamples:\n  npm run gpt2 -- course start\n')
    .action((folder: string) => {
      startCourse(folder);
      process.stdout.write(`wrote the exercises to ${folder}; next: npm run gpt2 -- course check ${folder}\n`);
    });
  const check = new Command('check')
    .description('Test your exercises in the emulator, and print the score')
    .argument('[FOLDER]', folderHelp, 'my-course')
    .addOption(
      numberOption('--time-limit <S>', 'seconds that a kernel may run', { kind: 'any', least: 0.1, most: 86_400 }, 30),
    )
    .addHelpText('after', '\nExamples:\n  npm run gpt2 -- course check\n\nExit code: 1 unless all are solved.\n')
    .action(async (folder: string, { timeLimit }: { timeLimit: number }) => {
      const checked: CheckedExercise[] = [];
      for await (const exercise of checkCourse(folder, timeLimit)) {
        checked.push(exercise);
        const { name, solved } = exercise;
        process.stdout.write(`${name.padEnd(24)}${solved === undefined ? 'open' : `solved ${solved.slice(0, 10)}`}\n`);
      }
      const open = checked.filter(({ solved }) => solved === undefined);
      process.stdout.write(`${checked.length - open.length} of ${checked.length} solved\n`);
      if (open.length === 0) return;
      const [{ source, lines }] = open as [CheckedExercise];
      process.stdout.write(`next: ${source}\n${lines.map((line) => `  ${line}\n`).join('')}`);
      throw new ExitError(1);
    });
  return new Command('course')
    .description('Exercises in writing CUDA kernels')
    .addHelpText('after', examples)
    .addCommand(start)
    .addCommand(check);
}
