// Hostile tokenizer.json files: whatever the package tokenizers does with one, this process goes on and gets an error in one line.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/errors.ts';
import { startProcess } from '../../src/native/start-thread.ts';
import { Random } from '../../src/op-cases/numbers.ts';
import { encode, type Tokenizer, textOf } from '../../src/tokenizer/tokenizer.ts';
import { readTokenizer } from '../../src/tokenizer/tokenizer-file.ts';
import { Workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { crashing, mutatedTokenizer, withoutAlphabet } from './tokenizers.ts';

let place: Workplace;
beforeAll(() => {
  place = new Workplace();
});
afterAll(() => place[Symbol.dispose]());

const tokenizerModule = new URL('../../src/tokenizer/tokenizer-file.ts', import.meta.url).href;
const texts = ['Hello, it is 12:30. é 世 🦜', `a a ${'l'.repeat(40)}`, '', 'x'];

function open(content: string): Tokenizer {
  writeFileSync(place.path('tokenizer.json'), content);
  return readTokenizer(place.path('tokenizer.json'));
}

/** Whether a file is read, and not refused. @throws for an error that is none of ours, or not one line that names the file */
function isRead(content: string): boolean {
  try {
    const tokenizer = open(content);
    for (const ids of tokenizer.encodeAll?.(texts).ids ?? []) textOf(ids, tokenizer);
    return true;
  } catch (error) {
    expect(error, content).toBeInstanceOf(Gpt2Error);
    const { message } = error as Gpt2Error;
    expect(message, content).not.toMatch(/[\p{Cc}\u2028\u2029]/u);
    expect(message, content).toMatch(/tokenizer\.json|the tokenizer has no ids for a text/);
    expect(message.length).toBeLessThan(2000);
    return false;
  }
}

it.each(Object.entries(crashing))('%s: the process of the library ends, and not this one', (_, file) => {
  expect(() => {
    const tokenizer = open(JSON.stringify(file));
    for (const ids of tokenizer.encodeAll!(texts).ids) textOf(ids, tokenizer);
  }).toThrow(
    /^the package tokenizers (ended with SIGABRT: .*panicked|did not answer in time|took over 2 GiB of memory).*, with the tokenizer \/.*tokenizer\.json: take another/,
  );
});

it('mutated files are read, or refused in one line', () => {
  let read = 0;
  const count = 12 * rounds;
  for (let index = 0; index < count; index++) if (isRead(mutatedTokenizer(new Random(seed + index)))) read++;
  expect(read).toBeGreaterThan(0);
  expect(read).toBeLessThan(count);
});

it('after a crash the next text is encoded', () => {
  const tokenizer = open(JSON.stringify(crashing['a pattern that takes for ever']));
  expect(() => tokenizer.encodeAll!([texts[1]!])).toThrow('SIGABRT');
  expect([...encode('a', tokenizer)]).toEqual([66]);
});

it('a text takes at most a time that depends on its length', { retry: 1 }, () => {
  const tokenizer = open(JSON.stringify(crashing['a pattern that takes for ever']));
  // Each word stays below the library's limit of steps.
  expect(() => tokenizer.encodeAll!([`${'l'.repeat(22)} `.repeat(2000)])).toThrow('did not answer in time');
});

it.each([
  ['two tokens with an id', { merges: [], vocab: { a: 0, b: 1, c: 1 } }, 'have the id 1'],
  [
    'ids that are drawn',
    { ...(withoutAlphabet().model as object), dropout: 0.5 },
    'model.dropout: ids would be random',
  ],
])('refuses %s', (_, model, reason) => {
  expect(() =>
    open(JSON.stringify({ ...withoutAlphabet(), added_tokens: [], model: { type: 'BPE', ...model } })),
  ).toThrow(reason);
});

it('refuses an added token whose id the library takes for another', () => {
  const added = { content: 'zz', single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
  const file = withoutAlphabet();
  const tokenizer = open(
    JSON.stringify({ ...file, added_tokens: [...(file.added_tokens as object[]), { ...added, id: 900 }] }),
  );
  expect(() => encode('a', tokenizer)).toThrow(/its id \d+ is .*, but the package tokenizers reads/);
});

it.each([
  ['a length', Buffer.from([255, 255, 255, 255])],
  ['a frame', Buffer.from([3, 0, 0, 0, 1, 2, 3])],
])('garbage in place of %s ends the process of the library', async (_, bytes) => {
  const child = startProcess('./huggingface-process', new URL('../../src/tokenizer/x.ts', import.meta.url).href, {
    stdio: ['pipe', 'ignore', 'ignore', 'ignore'],
  });
  child.stdin!.on('error', () => {});
  child.stdin!.write(bytes);
  expect(await once(child, 'exit')).toEqual([1, null]);
});

it('the process of the library ends with a parent that is killed', async () => {
  const program = `
    import { readFileSync, readdirSync } from 'node:fs';
    const { readTokenizer } = await import(${JSON.stringify(tokenizerModule)});
    readTokenizer(process.argv[1]).encodeAll(['a']);
    const mine = readdirSync('/proc').filter((pid) => {
      try { return readFileSync('/proc/' + pid + '/stat', 'utf8').split(') ')[1].split(' ')[1] === String(process.pid); } catch {}
    });
    console.log(mine.join(' '));
    setInterval(() => {}, 1000);
  `;
  const parent = spawn(
    process.execPath,
    [
      '--import',
      'tsx',
      '--input-type=module',
      '-e',
      program,
      fileURLToPath(new URL('../fixtures/tokenizers/byte-level.json', import.meta.url)),
    ],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const [output] = (await once(parent.stdout, 'data')) as [Buffer];
  const pids = `${output}`.trim().split(' ').map(Number);
  const alive = () => pids.some((pid) => process.kill(pid, 0));
  expect(alive()).toBe(true);
  parent.kill('SIGKILL');
  await expect.poll(alive, { timeout: 5000 }).toThrow('ESRCH');
});
