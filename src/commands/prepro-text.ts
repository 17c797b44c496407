// The command `prepro text`: makes token shards from text files. Other `prepro` commands share the flags about text, and the function
// that prints the result.
import { existsSync } from 'node:fs';
import { basename, extname, join, resolve } from 'node:path';
import { Command } from 'commander';
import { findInputs, type Prepared, prepareText, type TextOptions } from '../index.ts';
import {
  fieldOfTexts,
  formatCount,
  optionTable,
  readPreset,
  runPresetNames,
  shardPrefix,
  shellWord,
  tokenizerKinds,
  usageError,
  whole,
} from '../program.ts';
import {
  type Lists,
  type Numbers,
  numberOption,
  repeated,
  type Switches,
  share,
  type Texts,
} from './option-of-table.ts';
import { printResult } from './output.ts';
import { withProgress } from './progress.ts';

const defaultValFraction = 0.01;

type Making = Pick<TextOptions, 'tokenizer' | 'workers' | 'overwrite' | 'lossy'> & Required<Numbers<'shardTokens'>>;
export type TextFlags = Making & Texts<'out'> & Numbers<'valFraction'> & Switches<'json'>;

type OwnFlags = TextFlags & Texts<'separator' | 'field'> & Lists<'include' | 'exclude'>;

const help = `
A folder means all its text files, in the order of their names, without those that begin with a dot; .gz files are unpacked.
--include and --exclude select among them: * and ? stand for any characters of a name, ** for folders too.
The tokenizer's end of text precedes every document; char has none. Documents over 32 KiB are cut into parts of 16 to 32 KiB. A hash
of a part's text decides whether the part is for validation. If parts are too few to choose from, the beginning of one is used; the
share of tokens, which is printed, can then be far from --val-fraction.
A killed preparation resumes when the command runs again. It takes twice the disk space of the shards.

Examples:
  npm run prepro -- text book.txt                                  data/book
  npm run prepro -- text notes/ --out data/n --val-fraction 0.1
  npm run prepro -- text notes/ --include '*.md' --exclude drafts
  npm run prepro -- text corpus.txt --separator '\\n\\n'             \\n: a line break, \\t: a tab
  npm run prepro -- text dump.jsonl.gz --field text                a JSON object per line, or an array of them
  npm run prepro -- text table.parquet --field text                a column of text
  npm run prepro -- text дневник.txt --tokenizer bytes             a vocabulary of 257, which train then takes
  npm run prepro -- text book.txt --tokenizer char                 a vocabulary of the text's characters
  npm run prepro -- text book.txt --tokenizer my/tokenizer.json    a Hugging Face tokenizer: npm install tokenizers
`;

const excludeHelp = "files or folders in folders to leave out, such as drafts or '*.tmp'; may be repeated";

export function preproTextCommand(): Command {
  const command = new Command('text')
    .description('Make token shards of any UTF-8 text: files or folders')
    .argument('<FILE...>', 'files or folders')
    .option('--separator <TEXT>', 'text between documents (default: a file is a document)')
    .option('--field <NAME>', 'JSON field or .parquet column of the documents')
    .option('--include <GLOB>', "files of folders to read, such as '*.md'; may be repeated", repeated)
    .option('--exclude <GLOB>', excludeHelp, repeated);
  return addTextFlags(command)
    .option('--out <DIR>', 'folder to write (default: data/<NAME> of the first file)')
    .addHelpText('after', help)
    .action(async (paths: string[], flags: OwnFlags) => {
      const { separator, valFraction = defaultValFraction, include, exclude } = flags;
      const { tokenizer, workers, overwrite, lossy } = flags;
      const making = { tokenizer, workers, overwrite, lossy };
      if (flags.field !== undefined && separator !== undefined) {
        throw usageError`--field and --separator exclude each other: give one`;
      }
      const out = flags.out ?? join('data', basename(resolve(paths[0]!)).replace(/(?<=.)\..*$/s, ''));
      const mark = separator === undefined ? undefined : unescaped(separator);
      const division = { prefix: shardPrefix(out), shardTokens: flags.shardTokens, validation: valFraction };
      const made = await withProgress(async (shown) => {
        for (const [flag, globs] of Object.entries({ include, exclude })) {
          const expanded = globs?.find((glob) => isExpanded(glob, paths));
          if (expanded !== undefined) shown.notice(quoteGlob(flag, expanded));
        }
        const inputs = findInputs(paths, { include, exclude, notice: shown.notice });
        if ((include ?? exclude) && inputs.every(({ path }) => paths.includes(path))) {
          throw usageError`--include and --exclude select files of folders, and ${paths[0]!} is none: name a folder`;
        }
        const isOpen = flags.field === undefined && separator === undefined;
        const found = isOpen ? await fieldOfTexts(inputs) : undefined;
        const { field = found } = flags;
        const lines = inputs.find(({ path }) => /\.(jsonl|ndjson|csv|tsv)(\.gz)?$/i.test(path));
        if (field === undefined && lines) shown.notice(readAsText(lines.path));
        if (found !== undefined) shown.notice(readByField(inputs[0]!.path, found));
        const format =
          field === undefined ? { kind: 'text' as const, separator: mark } : { kind: 'jsonl' as const, field };
        const made = await prepareText(inputs, { ...shown, ...making, out, format, division });
        const files = inputs.filter(({ bytes }) => bytes > 0).length;
        if (mark !== undefined && made.dataset.documents! <= files) shown.notice(neverFound(mark));
        return made;
      });
      tell(made, flags, shareOf(made.dataset, valFraction));
    });
}

/** Whether the shell seems to have expanded an unquoted glob: the flag got the first file, and `paths` the files after it. */
const isExpanded = (glob: string, paths: readonly string[]): boolean =>
  existsSync(glob) && paths.some((path) => path !== glob && extname(path) !== '' && extname(path) === extname(glob));

const quoteGlob = (flag: string, glob: string): string =>
  `--${flag} has only ${glob}: put a pattern in quotes, as --${flag} '*${extname(glob)}', or the shell replaces it by files`;

const readAsText = (path: string): string =>
  /\.[ct]sv(\.gz)?$/i.test(path)
    ? `${path} is read as plain text, with its separators and quotes: convert it to JSON lines, and name a column with --field`
    : `${path} is read as plain text, with its JSON syntax: --field NAME reads the text of that field in each line`;

const readByField = (path: string, field: string): string =>
  `${path} is read as JSON with one text in each line or element, as with --field ${shellWord(field)}`;

function neverFound(separator: string): string {
  const withReturns = separator.replaceAll(/\r?\n/g, '\r\n');
  const hint = withReturns === separator ? '' : ` (with Windows line breaks, ${JSON.stringify(withReturns)})`;
  return `--separator ${JSON.stringify(separator)} never occurs, so each file is one document: give another one with --overwrite${hint}`;
}

const valFractionHelp = `share of the text for validation (default: ${defaultValFraction})`;
export const lossyHelp = 'accept a tokenizer.json that loses over 0.1% of the text';

export function addTextFlags(command: Command, shardTokens = 100_000_000): Command {
  return command
    .option('--tokenizer <NAME>', tokenizerKinds, 'gpt2')
    .addOption(numberOption('--val-fraction <X>', valFractionHelp, { ...share, isOpen: true }))
    .addOption(numberOption('--shard-tokens <N>', 'maximum tokens in a shard', whole(1, 2 ** 31 - 1), shardTokens))
    .addOption(numberOption('--workers <N>', 'threads (default: one per core, at most 6)', whole(1, 256)))
    .option('--overwrite', 'replace a data set of another text or other options')
    .option('--lossy', lossyHelp)
    .option('--json', 'print the result as JSON');
}

const unescaped = (text: string): string =>
  text.replaceAll(/\\([nrt\\])/g, (_, name: string) => ({ n: '\n', r: '\r', t: '\t' })[name] ?? name);

/** The actual share of validation tokens, in words; with the requested share (`asked`, 0 to 1) if the two differ. */
function shareOf({ shards }: Prepared['dataset'], asked: number): string {
  const sumOf = (some: typeof shards) => some.reduce((sum, { tokens }) => sum + tokens, 0);
  const [share, wanted] = [sumOf(shards.filter(({ role }) => role === 'val')) / sumOf(shards), asked].map(
    (value) => `${Number((100 * value).toPrecision(2))}%`,
  );
  return `, ${share} of the tokens for validation${share === wanted ? '' : ` (asked for: ${wanted})`}`;
}

/** Prints the files of a data set, and the `train` command that uses it. */
export function tell({ folder, present, dataset }: Prepared, { json }: Pick<TextFlags, 'json'>, share = ''): void {
  const shards = dataset.shards.map(({ file, tokens }) => `${folder}/${file}: ${formatCount(tokens)} tokens`);
  const documents =
    dataset.documents === undefined
      ? ''
      : `${formatCount(dataset.documents)} document${dataset.documents === 1 ? '' : 's'}, `;
  const head = `${present ? 'unchanged: ' : ''}${documents}a vocabulary of ${formatCount(dataset.vocabularySize)}${share}`;
  const isDefault = folder === optionTable.data.default;
  const preset = isDefault ? undefined : runPresetNames.find((name) => readPreset(name).options.data === folder);
  const data = isDefault ? '' : ` --data ${shellWord(folder)}`;
  const next = preset === undefined ? `${data} --steps 100` : ` --preset ${preset}`;
  const lines = [head, ...shards, `next: npm run train --${next}`];
  printResult({ folder, present, ...dataset }, lines, json);
}
