// The command `tokenizer`: trains a byte-pair tokenizer on texts.
import { existsSync } from 'node:fs';
import { Command } from 'commander';
import {
  asTyped,
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
import { writeResult } from './output.ts';

const help = `
The tokenizer is byte-level BPE, as GPT-2's. It needs the Hugging Face library: npm install tokenizers.

Examples:
  npm run gpt2 -- tokenizer train book.txt notes/a.txt --vocabulary 2000 --out small.json
  npm run prepro -- text book.txt --tokenizer small.json
`;
const size = `ids, from ${leastVocabulary} to ${mostVocabulary}`;

export function tokenizerCommand(): Command {
  const train = new Command('train')
    .description('Train a byte-level BPE tokenizer on text files')
    .argument('<FILE...>', 'UTF-8 text files')
    .addOption(numberOption('--vocabulary <N>', size, whole(leastVocabulary), 8192))
    .option('--out <FILE>', 'file to write', 'tokenizer.json')
    .addHelpText('after', help)
    .action((files: string[], { vocabulary, out }: { vocabulary: number; out: string }) => {
      if (vocabulary > mostVocabulary)
        throw usageError`--vocabulary takes up to ${mostVocabulary}, not ${vocabulary}: the package tokenizers always learns ${mostVocabulary} entries`;
      if (existsSync(out)) throw gpt2Error`${out} exists: name another file with --out`;
      const { file, vocabularySize } = trainTokenizer(files, vocabulary);
      writeResult('tokenizer', out, file, '--out');
      const few = vocabularySize < vocabulary ? `, not ${formatCount(vocabulary)}: the text has no more merges` : '';
      const next = `npm run prepro -- text ${files.map(shellWord).join(' ')} --tokenizer ${shellWord(out)}`;
      process.stdout.write(asTyped(`${out}: a vocabulary of ${formatCount(vocabularySize)}${few}\nnext: ${next}\n`));
    });
  return new Command('tokenizer')
    .description('Train a tokenizer of your own')
    .addCommand(train)
    .addHelpText('after', help);
}
