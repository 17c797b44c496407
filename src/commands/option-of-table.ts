// Options of `train` that other commands have as well, as its table describes them.
import { Option } from 'commander';
import { optionTable, readOption } from '../index.ts';

/** @param help instead of the table's, with the default in it */
export function tableOption(name: 'batch' | 'maxMemory' | 'device' | 'dtype' | 'threads', help?: string): Option {
  const row = optionTable[name];
  const shown = 'default' in row ? row.default : row.defaultText;
  return new Option(`${row.flag} <${row.argument}>`, help ?? `${row.help} (default: ${shown})`).argParser((text) =>
    readOption(name, text),
  );
}
