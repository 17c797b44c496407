// Options of `train` that other commands have as well, as its table describes them.
import { Option } from 'commander';
import { optionTable, readOption } from '../index.ts';

export function tableOption(name: 'device' | 'dtype' | 'threads'): Option {
  const row = optionTable[name];
  const shown = 'default' in row ? row.default : row.defaultText;
  return new Option(`${row.flag} <${row.argument}>`, `${row.help} (default: ${shown})`).argParser((text) =>
    readOption(name, text),
  );
}
