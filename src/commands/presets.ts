import { Argument, Command } from 'commander';
import { type PresetName, readPreset, runPresetNames } from '../program.ts';
import { printResult } from './output.ts';

const examples = `
Examples:
  npm run gpt2 -- presets                                        what each trains, and the commands that run it
  npm run --silent gpt2 -- presets finetune > finetune.json      a file to edit, for train --config finetune.json
`;

export function presetsCommand(): Command {
  return new Command('presets')
    .description('List the ready-made runs of train --preset, or print one as a config file')
    .addArgument(new Argument('[NAME]', 'preset to print').choices(runPresetNames))
    .option('--json', 'print the list as JSON')
    .addHelpText('after', examples)
    .action((name: PresetName | undefined, { json }: { json?: boolean }) => {
      const all = runPresetNames.map((each) => [each, readPreset(each)] as const);
      if (name) process.stdout.write(`${JSON.stringify(readPreset(name).options, null, 2)}\n`);
      else printResult(Object.fromEntries(all), all.flatMap(linesOf), json);
    });
}

const linesOf = ([name, { about, prepare }]: readonly [PresetName, ReturnType<typeof readPreset>]): string[] => [
  `${name}: ${about}`,
  ...prepare.map((command) => `  ${command}`),
  `  npm run train -- --preset ${name}`,
];
