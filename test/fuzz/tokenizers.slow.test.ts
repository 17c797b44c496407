// Hostile tokenizer.json files: whatever the package tokenizers does with one, this process goes on and gets an error in one line.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, it, vi } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { encode, type Tokenizer, textOf } from '../../src/tokenizer/tokenizer.ts';
import { readTokenizer } from '../../src/tokenizer/tokenizer-file.ts';
import { moduleLoader, moduleOf } from '../support/built.ts';
import { workplace } from '../support/cli.ts';
import { rounds, seed } from '../support/rounds.ts';
import { byteLevel, crashing, mutatedTokenizer, replace, withoutAlphabet } from './tokenizers.ts';

const place = workplace();

const texts = ['Hello, it is 12:30. é 世 🦜', `a a ${'l'.repeat(40)}`, '', 'x'];
/** Under 'a pattern that takes for ever': each word stays below the library's limit of steps. */
const slowText = `${'l'.repeat(22)} `.repeat(2000);

function open(content: string): Tokenizer {
  return readTokenizer(place.file('tokenizer.json', content));
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
    /^the package tokenizers ended with SIGABRT: .*panicked.*, with the tokenizer \/.*tokenizer\.json: take another tokenizer$/,
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

it('a text takes at most 2 GiB', () => {
  const tokenizer = open(JSON.stringify({ ...byteLevel, normalizer: replace({ String: 'l' }, 'a'.repeat(4 << 20)) }));
  // The blanks give it the time.
  expect(() => tokenizer.encodeAll!(['l'.repeat(100) + ' '.repeat(1_000_000)])).toThrow('took over 2 GiB of memory');
});

it('a text takes at most a time that depends on its length', { retry: 1 }, () => {
  const tokenizer = open(JSON.stringify(crashing['a pattern that takes for ever']));
  expect(() => tokenizer.encodeAll!([slowText])).toThrow('did not answer in time');
});

it.each([
  ['two tokens with an id', { merges: [], vocab: { a: 0, b: 1, c: 1 } }, 'have the id 1'],
  ['drawn ids', { ...(withoutAlphabet().model as object), dropout: 0.5 }, 'model.dropout: ids would be random'],
])('refuses %s', (_, model, reason) => {
  expect(() =>
    open(JSON.stringify({ ...withoutAlphabet(), added_tokens: [], model: { type: 'BPE', ...model } })),
  ).toThrow(reason);
});

it.each([
  ['that is no text', { content: '', id: 207 }, 'its id 207 is "", but the package tokenizers reads no token'],
  ['with the id of none', { content: 'zz', id: 900 }, 'its added token "zz" has the id 900, not 207'],
])('refuses an added token %s', (_, added, reason) => {
  const kind = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
  const file = withoutAlphabet();
  const content = { ...file, added_tokens: [...(file.added_tokens as object[]), { ...kind, ...added }] };
  expect(() => encode('a', open(JSON.stringify(content)))).toThrow(reason);
});

it('the process of the library ends with a parent that is killed, also while it encodes', async () => {
  open(JSON.stringify(crashing['a pattern that takes for ever']));
  const program = `
    const { readTokenizer } = await import('${moduleOf('tokenizer/tokenizer-file.ts')}');
    const tokenizer = readTokenizer(${JSON.stringify(place.path('tokenizer.json'))});
    tokenizer.encodeAll(['a']);
    console.log('open');
    setImmediate(() => tokenizer.encodeAll([${JSON.stringify(slowText)}]));
  `;
  const parent = spawn(process.execPath, [...moduleLoader, '--input-type=module', '-e', program]);
  const [output] = (await Promise.race([once(parent.stdout, 'data'), once(parent, 'exit')])) as [Buffer];
  expect(`${output}`).toBe('open\n');
  const children = () =>
    spawnSync('pgrep', ['-P', `${parent.pid}`, '-f', 'huggingface-process'], { encoding: 'utf8' }).stdout;
  const pid = Number(children());
  expect(pid).toBeGreaterThan(0);
  await wait(300);
  parent.kill('SIGKILL');
  await vi.waitFor(() => expect(() => process.kill(pid, 0)).toThrow('ESRCH'), { timeout: 5000 });
});
