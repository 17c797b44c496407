// The command `tokenizer`: trains a tokenizer on texts.
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import {
  formatCount,
  gpt2Error,
  leastVocabulary,
  mostVocabulary,
  shellWord,
  trainTokenizer,
  usageError,
  whole,
} from '../program.ts';
import { numberOption } from './option-of-table.ts';
import { printResult, writeResult } from './output.ts';

const help = `
Needs the package of the Hugging Face library: npm install tokenizers. The tokenizer is byte-level BPE, as GPT-2's: it reproduces
every text. Ids are <|endoftext|>, the 256 bytes, and one for each merge. Its training takes seconds for megabytes.

Examples:
  npm run gpt2 -- tokenizer train book.txt notes/a.txt --vocabulary 2000 --out small.json
  npm run prepro -- text book.txt --tokenizer small.json
`;

interface Flags {
  readonly vocabulary: number;
  readonly out: string;
  readonly json?: boolean;
}

export function tokenizerCommand(): Command {
  const train = new Command('train')
    .description('Train a byte-level BPE tokenizer on text files')
    .argument('<FILE...>', 'UTF-8 text files')
    .addOption(
      numberOption(
        '--vocabulary <N>',
        `ids, from ${leastVocabulary} to ${mostVocabulary}`,
        whole(leastVocabulary),
        8192,
      ),
    )
    .option('--out <FILE>', 'file to write', 'tokenizer.json')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help)
    .action(async (files: string[], { vocabulary, out, json }: Flags) => {
      if (vocabulary > mostVocabulary) {
        throw usageError`--vocabulary takes up to ${mostVocabulary}, not ${vocabulary}: the package tokenizers always learns ${mostVocabulary} entries`;
      }
      if (existsSync(out)) throw gpt2Error`${out} exists: name another file with --out`;
      const { file, vocabularySize } = await trainTokenizer(files, vocabulary);
      writeResult('tokenizer', out, file, '--out');
      const few = vocabularySize < vocabulary ? `, not ${formatCount(vocabulary)}: the text has no more merges` : '';
      const lines = [
        `${out}: a vocabulary of ${formatCount(vocabularySize)}${few}`,
        `next: npm run prepro -- text ${files.map(shellWord).join(' ')} --tokenizer ${shellWord(out)}`,
      ];
      printResult({ path: out, vocabularySize }, lines, json);
    });
  return new Command('tokenizer')
    .description('Train a tokenizer of your own')
    .addCommand(train)
    .addHelpText('after', help);
}
