// `prepro inspect`: what a token shard holds. Reading it is datasets/inspect.ts's.
import { Command } from 'commander';
import { inspectShard } from '../program.ts';
import { strictNumber } from './strict-number.ts';

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
  const place = (flag: string, least: number) => strictNumber(flag, least, 2 ** 31 - 1, 'whole');
  return new Command('inspect')
    .description('What a token shard holds: header, counts, text at a token')
    .argument('<SHARD>', 'a .bin file of tokens')
    .option('--at <TOKEN>', 'where the text begins', place('--at', 0), 0)
    .option('--count <N>', 'tokens of text', place('--count', 1), 64)
    .option('--json', 'the same as JSON, with the ids')
    .addHelpText('after', help)
    .action((path: string, { at, count, json }: Flags) => {
      const found = inspectShard(path, { at, count });
      if (json) {
        process.stdout.write(`${JSON.stringify(found)}\n`);
        return;
      }
      const number = (value: number) => value.toLocaleString('en-US');
      const lines = [
        `${found.path}: ${number(found.bytes)} bytes, sha256 ${found.sha256}`,
        `header: 20240520, version 1, ${number(found.tokens)} tokens`,
        `tokenizer: ${found.tokenizer}, a vocabulary of ${number(found.vocabularySize)}; the largest id is ${number(found.largest)}`,
        `<|endoftext|>: ${number(found.endsOfText)}, before a document or a stretch of a long one`,
        `tokens ${number(at)} to ${number(at + found.ids.length - 1)}:`,
        found.text,
      ];
      process.stdout.write(`${lines.join('\n')}\n`);
    });
}
