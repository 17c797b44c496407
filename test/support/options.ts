// Options from flags as a person types them.
import { type OptionName, optionTable, type TrainOptions } from '../../src/train/option-table.ts';
import { readOption } from '../../src/train/options.ts';

/** "--batch 4 --recompute gelu" */
export function parseOptions(flags: string): TrainOptions {
  const words = flags.split(' ');
  const options: Record<string, unknown> = {};
  for (let at = 0; at < words.length; at += 2) {
    const row = Object.entries(optionTable).find(([, { flag }]) => flag === words[at]);
    if (!row) throw new Error(`no option ${words[at]}`);
    options[row[0]] = readOption(row[0] as OptionName, words[at + 1]);
  }
  return options as TrainOptions;
}
