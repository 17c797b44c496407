// The commands of the large data sets, such as `prepro tinystories`: they make shards in llm.c's layout.
import { Command, Option } from 'commander';
import { corpora } from '../program.ts';
import { numberOption } from './option-of-table.ts';
import { addTextFlags, type TextFlags, tell } from './prepro-text.ts';
import { withProgress } from './progress.ts';

interface Flags extends TextFlags {
  readonly from?: readonly string[];
}

const network = `
An interrupted download resumes, and its checksum is checked. HF_ENDPOINT names a mirror of https://huggingface.co.`;

export const corpusCommands = (): Command[] =>
  corpora.map((corpus) => {
    const { name, description, about, examples, folders, flags = [], shardTokens } = corpus;
    const command = new Command(name).description(description);
    for (const { usage, help, type, default: otherwise } of flags)
      command.addOption(type ? numberOption(usage, help, type) : new Option(usage, help).default(otherwise));
    return addTextFlags(command, shardTokens)
      .option('--from <PATH...>', 'files or folders to read instead of downloading')
      .option('--out <DIR>', `folder to write (default: ${Object.keys(folders).join(' or ')})`)
      .addHelpText('after', `\n${about}${network}\n\nExamples:${examples}\n`)
      .action(async ({ valFraction: validation, json, ...options }: Flags) => {
        tell(await withProgress((shown) => corpus.prepare({ ...shown, ...options, validation })), { json });
      });
  });
