// Options from flags as a person types them.
import { readValue } from '../../src/options/read-options.ts';
import { flagOf } from '../../src/options/row.ts';
import { optionNames, optionRows, type TrainOptions } from '../../src/options/table.ts';

/** "--batch 4 --recompute gelu" */
export function parseOptions(flags: string): TrainOptions {
  const words = flags.split(' ');
  const options: Record<string, unknown> = {};
  for (let at = 0; at < words.length; at += 2) {
    const name = optionNames.find((each) => flagOf(optionRows[each]) === words[at]);
    if (!name) throw new Error(`no option ${words[at]}`);
    options[name] = readValue(optionRows[name], words[at + 1]);
  }
  return options as TrainOptions;
}
