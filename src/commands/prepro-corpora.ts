// The commands `prepro tinystories` and `prepro fineweb`: make shards of published corpora, in llm.c's layout.
import { Command } from 'commander';
import { finewebVersion, finewebVersions, prepareFineweb, prepareTinystories, tinystories, whole } from '../program.ts';
import { numberOption } from './option-of-table.ts';
import { addTextFlags, defaultShardTokens, type TextFlags, tell } from './prepro-text.ts';
import { withProgress } from './progress.ts';

interface Flags extends TextFlags {
  readonly from?: readonly string[];
}

interface FinewebFlags extends Flags {
  readonly version: string;
  readonly field: string;
  readonly shards?: number;
}

const network = `
An interrupted download resumes, and its checksum is checked. HF_ENDPOINT names a mirror of https://huggingface.co.`;

const tinystoriesHelp = `
Source: TinyStoriesV2-GPT4-train.txt and -valid.txt of roneneldan/TinyStories (2.2 GB), from --from, GPT2_DATASETS/tinystories
or the network; downloads are kept in <OUT>/download. <|endoftext|> separates stories. --from also takes the published
.parquet files. A file with train or valid in its name has that role; the content divides other files.${network}

Examples:
  npm run prepro tinystories
  npm run prepro -- tinystories --from stories/
`;

const finewebHelp = `
Versions:
${Object.entries(finewebVersions)
  .map(([name, { description }]) => `  ${name.padEnd(5)} ${description}`)
  .join('\n')}

With --from, shards are made of files, in their order: .parquet as published, in row groups of up to 64 MiB of text (as
HuggingFaceFW/fineweb, sample/10BT/000_00000.parquet), .jsonl or .jsonl.gz. Shard 000000 is validation and the others are
for training, as in llm.c; with --val-fraction the content decides.
Without --from, shards made with llm.c's script are downloaded, 200 MB each.${network}

Examples:
  npm run prepro -- fineweb --version 10B --shards 10
  npm run prepro -- fineweb --version edu --from fineweb-edu/            a folder of .parquet or .jsonl
`;

const addCorpusFlags = (command: Command, out: string, shardTokens: number) =>
  addTextFlags(command, shardTokens)
    .option('--from <PATH...>', 'files or folders to read instead of downloading')
    .option('--out <DIR>', `folder to write (default: ${out})`);

export function preproTinystoriesCommand(): Command {
  const command = new Command('tinystories').description('TinyStories: 2.2 GB of short stories in simple words');
  return addCorpusFlags(command, tinystories.out, tinystories.shardTokens)
    .addHelpText('after', tinystoriesHelp)
    .action(async ({ valFraction: validation, json, ...flags }: Flags) => {
      const options = { ...flags, out: flags.out ?? tinystories.out, validation };
      tell(await withProgress((shown) => prepareTinystories({ ...shown, ...options })), { json });
    });
}

export function preproFinewebCommand(): Command {
  const command = new Command('fineweb')
    .description('FineWeb and FineWeb-Edu, in shards of 100 million tokens')
    .option('--version <NAME>', Object.keys(finewebVersions).join(', '), '10B')
    .option('--field <NAME>', 'column or JSON field of the text', 'text')
    .addOption(
      numberOption('--shards <N>', 'training shards to download (default: 10 billion tokens)', whole(1, 1100)),
    );
  return addCorpusFlags(command, 'data/fineweb10B or data/edu_fineweb10B', defaultShardTokens)
    .addHelpText('after', finewebHelp)
    .action(async ({ valFraction: validation, json, ...flags }: FinewebFlags) => {
      const options = { ...flags, out: flags.out ?? finewebVersion(flags.version).out, validation };
      tell(await withProgress((shown) => prepareFineweb({ ...shown, ...options })), { json });
    });
}
