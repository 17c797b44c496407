// `prepro text` as a user runs it: train takes what it makes, in either vocabulary; what is wrong is said in one line.
import { readFileSync, rmSync, symlinkSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { tinyModel, withCode, workplace } from '../support/cli.ts';

const place = workplace();
const lines = Array.from({ length: 4000 }, (_, index) => `line ${index} of text with “signs” and ${index % 7} words`);
place.file('text.txt', lines.join('\n'));

describe('train takes it', () => {
  it.each(Object.entries({ gpt2: 50257, bytes: 257 }))('%s', async (tokenizer, vocabularySize) => {
    const out = `data-${tokenizer}`;
    const made = await place.okHere(`prepro text text.txt --tokenizer ${tokenizer} --out ${out} --workers 1 --json`);
    expect(JSON.parse(made.stdout)).toMatchObject({ folder: out, present: false, tokenizer, vocabularySize });
    const steps = ['--steps', '2', '--sample-every', '1', '--val-every', '1', '--val-steps', '1', '--save-every', '2'];
    await place.okHere(['train', '--data', out, '--out', `run-${tokenizer}`, ...steps, ...tinyModel]);
    const log = readFileSync(place.path(`run-${tokenizer}`, 'log.jsonl'), 'utf8');
    expect(log).toContain(`"vocabularySize":${vocabularySize}`);
    expect(log).toContain('"event":"sample"');
    const sample = await place.okHere(`sample --model run-${tokenizer} --prompt Zoë --tokens 5 --device cpu`);
    expect(sample.stdout).toMatch(/^Zoë/);
  });

  it('by the command that a model of characters is advised to use', async () => {
    place.file('few.txt', 'line 1 of a text with 2 words\n'.repeat(500));
    const train = `train --data data/text --out run-char --steps 1 --sample-every 0 ${tinyModel.join(' ')}`;
    await place.okHere('prepro text text.txt --tokenizer char --workers 1');
    await place.okHere(`${train} --seq 64 --val-every 0`);
    await place.okHere('prepro text few.txt --tokenizer bytes --workers 1');
    const { stderr } = await place.here(['eval', '--model', 'run-char', '--data', 'data/few']);
    const [, command] = /prepare the data with the model's tokenizer: `np.* prepro (?:-- )?([^`]+)`/.exec(stderr)!;
    await place.okHere(`prepro ${command!.replace('FILE', 'few.txt')}`);
    await place.okHere(['eval', '--model', 'run-char', '--data', command!.split(' --out ')[1]!, '--batch', '1']);
  });

  it("not as the data of a model of another vocabulary's", async () => {
    const args = 'train --data data-gpt2 --model run-bytes --out mixed --steps 1 --seq 64 --device cpu';
    const { stderr } = withCode(1, await place.here(args));
    expect(stderr).toMatch(
      /^data-gpt2 has a vocabulary of 50257 tokens \(gpt2\), .*one of 257; name the run's data with --data \S+, or prepare the data with/,
    );
  });
});

describe('says in one line', () => {
  const paragraphs = Array.from({ length: 4000 }, (_, index) => `paragraph ${index} of several`);
  const objects = paragraphs.map((text) => ({ text }));
  const json = objects.map((object) => JSON.stringify(object)).join('\n');
  const files: Record<string, string | Buffer> = {
    'titled.jsonl': paragraphs.map((text, index) => JSON.stringify({ title: `${index}`, text })).join('\n'),
    'array.json': JSON.stringify(objects, null, 2),
    'texts.json': JSON.stringify(paragraphs),
    'packed.json': gzipSync(json),
    'marked.txt': paragraphs.join('<|endoftext|>'),
    'marked.jsonl': `${json}\n{"text":"<|endoftext|>"}`,
    'unix.txt': paragraphs.join('\n\n'),
    'windows.txt': paragraphs.join('\r\n\r\n'),
    'dump.jsonl': json,
    'marked-utf8.jsonl': `\ufeff${json}`,
    'blank.jsonl': `${json}\n{"text":""}\n{"text":" \\n"}`,
    'table.csv': paragraphs.join(',\n'),
  };
  const made = (line: string) => place.here(`prepro text ${line} --out said --overwrite --val-fraction 0.2`);
  it.each([
    [
      'windows.txt --separator \\n\\n',
      String.raw`--separator "\n\n" never occurs, so each file is one document: give another one with --overwrite (with Windows line breaks, "\r\n\r\n")`,
    ],
    [
      'unix.txt --separator <|endoftext|>',
      '--separator "<|endoftext|>" never occurs, so each file is one document: give another one with --overwrite',
    ],
    ['windows.txt --separator \\r\\n\\r\\n', ''],
    ['windows.txt', ''],
    [
      'titled.jsonl',
      'titled.jsonl is read as plain text, with its JSON syntax: --field NAME reads the text of that field in each line',
    ],
    [
      'table.csv',
      'table.csv is read as plain text, with its separators and quotes: convert it to JSON lines, and name a column with --field',
    ],
    ...['dump.jsonl', 'array.json', 'marked-utf8.jsonl', 'texts.json', 'packed.json'].map((name) => [
      name,
      `${name} is read as JSON with one text in each line or element, as with --field text`,
    ]),
    [
      'marked.txt',
      "<|endoftext|> occurs 3999 times in the text: divide documents there with --separator '<|endoftext|>'",
    ],
    ['marked.txt --separator <|endoftext|>', ''],
    ['marked.jsonl --field text', '<|endoftext|> occurs once in the text: each line or row stays one document'],
    ['blank.jsonl --field text', 'rows left out, because their text is only white space: 2'],
    ['dump.jsonl --field text', ''],
  ] as [string, string][])('%s: "%s"', async (line, said) => {
    for (const [name, content] of Object.entries(files)) place.file(name, content);
    const { stdout, stderr } = withCode(0, await made(line));
    if (said.includes('--field text')) expect(stdout).toMatch(/^4,000 documents, /);
    // So little text has a line of its own about the share.
    expect(stderr.replace(/^validation is .*\n/m, '').trimEnd()).toBe(said);
  });
});

describe('of a folder', () => {
  const documents = ['a.md', 'b.txt', 'drafts/c.md', 'drafts/deep/d.md', 'größe?.md'];
  beforeAll(() => {
    for (const name of documents) place.file(`mixed/${name}`, `${name} ${'word '.repeat(2000)}`);
    place.file('mixed/picture.png', Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]));
    place.file('mixed/zeros.dat', 'text\0');
    symlinkSync('drafts', place.path('mixed/linked'));
    // The character at the end of what is looked at is whole in the file.
    place.file('mixed/b.txt', `${'x'.repeat(8190)}漢`);
  });
  const made = (line: string) => place.here(`prepro text mixed --tokenizer bytes --out made --overwrite ${line}`);

  it('reads the text files, and says in one line what it skips', async () => {
    const { stdout, stderr } = withCode(0, await made('--val-fraction 0.2'));
    expect(stderr).toBe('skipped 3 files that are not UTF-8 text: mixed/linked, mixed/picture.png, mixed/zeros.dat\n');
    expect(stdout).toMatch(/^5 documents, /);
    symlinkSync('none', place.path('mixed/broken'));
    withCode(0, await made('--val-fraction 0.2 --exclude broken'));
    rmSync(place.path('mixed/broken'));
  });

  it.each([
    ['--include *.md', 4],
    ['--include *.md --exclude drafts/**', 2],
    ['--include *.md --exclude drafts', 2],
    ['--include *.md --exclude ./drafts/', 2],
    ['--include *.md --include ?.txt --exclude gr*', 4],
    ['--exclude *.png --exclude *.d?t --exclude drafts/*', 4],
    ['--include **/d.md --include **/a.md', 2],
    ['--include größe?.md --include a.md', 2],
  ])('%s', async (line, count) => {
    const { stdout } = withCode(0, await made(`--val-fraction 0.2 ${line}`));
    expect(stdout).toMatch(new RegExp(`^(unchanged: )?${count} documents, `));
  });

  it.each([
    ['--include *.rst --exclude drafts', ' *.rst'],
    ['--exclude *.*', ' except those left out by *.*'],
  ])('refuses a folder without a selected file: %s', async (line, what) => {
    const { stderr } = withCode(1, await made(line));
    expect(stderr).toBe(`mixed has no text file${what}: name files, or a folder that has some\n`);
  });

  it('hints at a pattern that the shell has replaced', async () => {
    place.file('a.md', 'a');
    place.file('b.md', 'b');
    const { stderr } = await made('--include a.md b.md');
    expect(stderr).toMatch(/^--include has only a\.md: put a pattern in quotes, as --include '\*\.md', or the shell/);
  });
});

it('says what share is for validation, and what was asked for', async () => {
  const { stdout } = await place.here('prepro text text.txt --out share --overwrite --val-fraction 0.3');
  const [train, val] = [...stdout.matchAll(/([\d,]+) tokens/g)].map((match) => Number(match[1]!.replaceAll(',', '')));
  const share = Number(((100 * val!) / (train! + val!)).toPrecision(2));
  expect(share).not.toBe(30);
  expect(stdout).toContain(`, ${share}% of the tokens for validation (asked for: 30%)\n`);
});

it('warns if the share is far from what was asked for', async () => {
  for (const [name, size] of Object.entries({ a: 2000, b: 1000, c: 700 })) place.file(`few/${name}`, name.repeat(size));
  const made = (share: string) => place.here(`prepro text few --tokenizer bytes --overwrite --val-fraction ${share}`);
  expect((await made('0.3')).stderr).toMatch(/^validation is 54% of the tokens, not 30%: .*; give more text, or/);
  expect(await made('0.6')).toMatchObject({ stdout: expect.stringContaining('54% of the tokens'), stderr: '' });
});
