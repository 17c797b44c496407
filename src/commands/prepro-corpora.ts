// `prepro tinystories` and `prepro fineweb`: the published corpora, from files or from the network, in llm.c's layout.
import { Command } from 'commander';
import { finewebVersion, finewebVersions, prepareFineweb, prepareTinystories, tinystories } from '../program.ts';
import { addTextFlags, defaultShardTokens, type TextFlags, tell, withProgress } from './prepro-text.ts';
import { strictNumber } from './strict-number.ts';

interface Flags extends TextFlags {
  readonly from?: readonly string[];
}

interface FinewebFlags extends Flags {
  readonly version: string;
  readonly field: string;
  readonly shards?: number;
}

const network = `
A download goes on where it was, and its checksum is checked. HF_ENDPOINT names a mirror of https://huggingface.co.`;

const tinystoriesHelp = `
From the text files of roneneldan/TinyStories, TinyStoriesV2-GPT4-train.txt and -valid.txt (2.2 GB): those of --from, of
GPT2_DATASETS/tinystories, or of the network, which are kept in <OUT>/download. Stories are apart by <|endoftext|>; --from
also takes the .parquet files that are published. A file with train or valid in its name has that role; others are divided
by content.${network}

Examples:
  npm run prepro tinystories
  npm run prepro -- tinystories --from stories/
`;

const finewebHelp = `
Versions:
${Object.entries(finewebVersions)
  .map(([name, { description }]) => `  ${name.padEnd(5)} ${description}`)
  .join('\n')}

With --from it is made of files, whose order is kept: .parquet as published, in row groups of up to 64 MiB of text (as
HuggingFaceFW/fineweb, sample/10BT/000_00000.parquet), .jsonl or .jsonl.gz. Shard 000000 is validation, the next are for
training, as in llm.c; with --val-fraction, a share by content instead.
Without --from, shards made with llm.c's script are downloaded, 200 MB each.${network}

Examples:
  npm run prepro -- fineweb --version 10B --shards 10
  npm run prepro -- fineweb --version edu --from fineweb-edu/            a folder of .parquet or .jsonl
`;

const addCorpusFlags = (command: Command, out: string, shardTokens: number) =>
  addTextFlags(command, shardTokens)
    .option('--from <PATH...>', 'files or folders, instead of a download')
    .option('--out <DIR>', `folder to write (default: ${out})`);

export function preproTinystoriesCommand(): Command {
  const command = new Command('tinystories').description('TinyStories: 2.2 GB of short stories in simple words');
  return addCorpusFlags(command, tinystories.out, tinystories.shardTokens)
    .addHelpText('after', tinystoriesHelp)
    .action(async ({ valFraction: validation, ...flags }: Flags) => {
      const options = { ...flags, out: flags.out ?? tinystories.out, validation };
      tell(await withProgress((shown) => prepareTinystories({ ...shown, ...options })), flags);
    });
}

export function preproFinewebCommand(): Command {
  const command = new Command('fineweb')
    .description('FineWeb and FineWeb-Edu, in shards of 100 million tokens')
    .option('--version <NAME>', Object.keys(finewebVersions).join(', '), '10B')
    .option('--field <NAME>', 'the column, or field of a JSON line, that has the text', 'text')
    .option(
      '--shards <N>',
      'training shards to download (default: 10 billion tokens)',
      strictNumber('--shards', 1, 1100, 'whole'),
    );
  return addCorpusFlags(command, 'data/fineweb10B or data/edu_fineweb10B', defaultShardTokens)
    .addHelpText('after', finewebHelp)
    .action(async ({ valFraction: validation, ...flags }: FinewebFlags) => {
      const options = { ...flags, out: flags.out ?? finewebVersion(flags.version).out, validation };
      tell(await withProgress((shown) => prepareFineweb({ ...shown, ...options })), flags);
    });
}
