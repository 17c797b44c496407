// The command `prepro inspect`: prints the contents of a token shard, which data/datasets/inspect.ts reads.
import { Command } from 'commander';
import { formatCount, inspectShard, whole } from '../program.ts';
import { numberOption } from './option-of-table.ts';
import { jsonLine } from './output.ts';

const help = `
Examples:
  npm run prepro -- inspect data/tinyshakespeare/tiny_shakespeare_val.bin
  npm run prepro -- inspect data/book/book_train.bin --at 5000 --count 200
`;

interface Flags {
  readonly at: number;
  readonly count: number;
  readonly json?: boolean;
}

export function preproInspectCommand(): Command {
  const most = 2 ** 31 - 1;
  return new Command('inspect')
    .description('Show a token shard: header, counts, text at a token')
    .argument('<SHARD>', 'a .bin file of tokens')
    .addOption(numberOption('--at <TOKEN>', 'first token of the text', whole(0, most), 0))
    .addOption(numberOption('--count <N>', 'tokens of text', whole(1, most), 64))
    .option('--json', 'print JSON, with the ids')
    .addHelpText('after', help)
    .action((path: string, { at, count, json }: Flags) => {
      const found = inspectShard(path, { at, count });
      const lines = [
        `${found.path}: ${formatCount(found.bytes)} bytes, sha256 ${found.sha256}`,
        `header: 20240520, version 1, ${formatCount(found.tokens)} tokens`,
        `tokenizer: ${found.tokenizer}, a vocabulary of ${formatCount(found.vocabularySize)}; the largest id is ${formatCount(found.largest)}`,
        `<|endoftext|>: ${formatCount(found.endsOfText)}, before each document or part of a long one`,
        `tokens ${formatCount(at)} to ${formatCount(at + found.ids.length - 1)}:`,
        found.text,
      ];
      process.stdout.write(json ? jsonLine(found) : `${lines.join('\n')}\n`);
    });
}
