// `prepro text`: token shards of any files of text. And what the commands beside it share: their flags, the progress that a
// terminal sees, the result in lines.
import { basename, join, resolve } from 'node:path';
import { clearLine, cursorTo } from 'node:readline';
import { Command } from 'commander';
import { findInputs, prepareText, UsageError } from '../index.ts';
import { asTyped, type PreparedText, shardPrefix, tokenizerNames } from '../program.ts';
import { formatBytes, formatDuration, inOneLine } from './progress.ts';
import { share, strictNumber } from './strict-number.ts';

export const defaultShardTokens = 100_000_000;
const defaultValFraction = 0.01;

export interface TextFlags {
  readonly out?: string;
  readonly tokenizer: string;
  readonly shardTokens: number;
  readonly valFraction?: number;
  readonly workers?: number;
  readonly overwrite?: boolean;
  readonly json?: boolean;
}

interface OwnFlags extends TextFlags {
  readonly separator?: string;
  readonly field?: string;
}

const help = `
A folder stands for all files in it, in the order of their names; what begins with a dot is left out; .gz is unpacked.
Every document is preceded by <|endoftext|>. Validation is a share of the documents, told by a hash of their text; of a
document over 32 KiB, a share of its stretches of 16 to 32 KiB; where those are too few to choose from, the beginning of one.
A killed run goes on where it was; disk: twice the shards.

Examples:
  npm run prepro -- text book.txt                          data/book
  npm run prepro -- text notes/ --out data/n --val-fraction 0.1
  npm run prepro -- text corpus.txt --separator '\\n\\n'     \\n and \\t are a line break and a tab
  npm run prepro -- text dump.jsonl.gz --field text        a JSON object a line
  npm run prepro -- text table.parquet --field text        a row's column
  npm run prepro -- text дневник.txt --tokenizer bytes     a vocabulary of 257, which train then takes
`;

export function preproTextCommand(): Command {
  const command = new Command('text')
    .description('Token shards of any UTF-8 text: files, or a folder of them')
    .argument('<FILE...>', 'files or folders')
    .option('--separator <TEXT>', 'what stands between documents (default: a file is a document)')
    .option('--field <NAME>', 'the files are lines of JSON, or .parquet, with a document in this field or column');
  return addTextFlags(command)
    .option('--out <DIR>', 'folder to write (default: data/<NAME> of the first file)')
    .addHelpText('after', help)
    .action(async (paths: string[], flags: OwnFlags) => {
      const { separator, field, valFraction = defaultValFraction } = flags;
      if (field !== undefined && separator !== undefined) {
        throw new UsageError('--field and --separator exclude each other, give one: a line or row is a document');
      }
      const out = flags.out ?? join('data', basename(resolve(paths[0]!)).replace(/(?<=.)\..*$/s, ''));
      const mark = separator === undefined ? undefined : unescaped(separator);
      const format =
        field === undefined ? { kind: 'text' as const, separator: mark } : { kind: 'jsonl' as const, field };
      const division = { prefix: shardPrefix(out), shardTokens: flags.shardTokens, validation: valFraction };
      const inputs = findInputs(paths);
      const made = await withProgress(async (shown) => {
        const lines = inputs.find(({ path }) => /\.(jsonl|ndjson)(\.gz)?$/i.test(path));
        if (lines && field === undefined) shown.notice(takenAsItStands(lines.path));
        const made = await prepareText(inputs, { ...shown, ...flags, out, format, division });
        const files = inputs.filter(({ bytes }) => bytes > 0).length;
        if (mark !== undefined && made.dataset.documents! <= files) shown.notice(dividesNothing(mark));
        return made;
      });
      tell(made, flags);
    });
}

const takenAsItStands = (path: string): string =>
  `${path} is taken as it stands, JSON and all: --field NAME takes the text in that field of each line`;

function dividesNothing(separator: string): string {
  const withReturns = separator.replaceAll(/\r?\n/g, '\r\n');
  const hint = withReturns === separator ? '' : `; where lines end as on Windows it is ${JSON.stringify(withReturns)}`;
  return `--separator ${JSON.stringify(separator)} stands between no documents, each file is one: give what does, with --overwrite${hint}`;
}

/** Adds the flags of every command that makes shards of text. */
export function addTextFlags(command: Command, shardTokens = defaultShardTokens): Command {
  return command
    .option('--tokenizer <NAME>', tokenizerNames.join(', '), 'gpt2')
    .option('--val-fraction <X>', 'share of the text that is validation (default: 0.01)', share('--val-fraction'))
    .option(
      '--shard-tokens <N>',
      'most tokens in a shard',
      strictNumber('--shard-tokens', 1, 2 ** 31 - 1, 'whole'),
      shardTokens,
    )
    .option(
      '--workers <N>',
      'threads (default: one for each core, at most 6)',
      strictNumber('--workers', 1, 256, 'whole'),
    )
    .option('--overwrite', 'replace a data set of another text or other options')
    .option('--json', 'the result as JSON on stdout');
}

const unescaped = (text: string): string =>
  text.replaceAll(/\\([nrt\\])/g, (_, name: string) => ({ n: '\n', r: '\r', t: '\t' })[name] ?? name);

interface Shown {
  readonly onProgress: (done: number, total: number) => void;
  readonly notice: (text: string) => void;
}

/** Runs with a line on a terminal's stderr that says how far it is. */
export async function withProgress<T>(run: (shown: Shown) => Promise<T>): Promise<T> {
  const isLive = process.stderr.isTTY === true && process.env.TERM !== 'dumb';
  const begun = performance.now();
  let shownAt = 0;
  const clear = () => {
    if (!isLive) return;
    cursorTo(process.stderr, 0);
    clearLine(process.stderr, 0);
  };
  const onProgress = (done: number, total: number) => {
    const now = performance.now();
    if (!isLive || now - shownAt < 200) return;
    shownAt = now;
    const seconds = (now - begun) / 1000;
    const left = done > 0 ? `   left ${formatDuration((seconds * (total - done)) / done)}` : '';
    clear();
    const line = `${formatBytes(done)} of ${formatBytes(total)}   ${formatBytes(done / seconds)}/s${left}`;
    process.stderr.write(inOneLine(line));
  };
  const notice = (text: string) => {
    clear();
    process.stderr.write(`${text}\n`);
  };
  try {
    return await run({ onProgress, notice });
  } finally {
    clear();
  }
}

/** Prints what was made. */
export function tell({ folder, present, dataset }: PreparedText, { json }: Pick<TextFlags, 'json'>): void {
  if (json) {
    process.stdout.write(`${JSON.stringify({ folder, present, ...dataset })}\n`);
    return;
  }
  const count = (value: number) => value.toLocaleString('en-US');
  const lines = dataset.shards.map(({ file, tokens }) => `${folder}/${file}: ${count(tokens)} tokens`);
  const documents =
    dataset.documents === undefined
      ? ''
      : `${count(dataset.documents)} document${dataset.documents === 1 ? '' : 's'}, `;
  lines.unshift(
    `${present ? 'there already, and right: ' : ''}${documents}a vocabulary of ${count(dataset.vocabularySize)}`,
  );
  process.stdout.write(asTyped(`${lines.join('\n')}\nnext: npm run train -- --data ${folder} --steps 100\n`));
}
