// Files of tokens and of llm.c's multiple-choice questions: what is written is read back; what is not a whole file is refused in one line;
// finding shards by role.
import { createHash } from 'node:crypto';
import { appendFileSync, mkdirSync, readdirSync, readFileSync, truncateSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { preproOf } from '../../src/data/datasets/datasets.ts';
import { findShards } from '../../src/data/datasets/find-shards.ts';
import { readDataset } from '../../src/data/shards/dataset-file.ts';
import { type Question, readQuestions, writeQuestions } from '../../src/data/shards/multiple-choice.ts';
import { openShard, writeShard } from '../../src/data/shards/shard.ts';
import { workplace } from '../support/cli.ts';
import { randomQuestions } from '../support/questions.ts';

const place = workplace();

/** Changes of a file: a word of its header is another, or it ends early. */
const header = (index: number, value: number) => (bytes: Buffer) => {
  bytes.writeInt32LE(value, index * 4);
  return bytes;
};
const cut = (end: number) => (bytes: Buffer) => bytes.subarray(0, end);

describe('a shard', () => {
  it('gives back any tokens, any range', () => {
    const path = place.path('round.bin');
    fc.assert(
      fc.property(fc.uint16Array({ maxLength: 300 }), fc.nat(300), fc.nat(300), (tokens, a, b) => {
        writeShard(path, tokens);
        using shard = openShard(path);
        expect(shard.tokens).toBe(tokens.length);
        const [start, end] = [Math.min(a, b, tokens.length), Math.min(Math.max(a, b), tokens.length)];
        expect([...shard.read(start, end - start)]).toEqual([...tokens.subarray(start, end)]);
      }),
      { numRuns: 40 },
    );
  });

  it('has the header of llm.c', () => {
    writeShard(place.path('header.bin'), Uint16Array.from([7, 8]));
    const bytes = readFileSync(place.path('header.bin'));
    const words = [0, 4, 8].map((at) => bytes.readInt32LE(at));
    expect([bytes.length, ...words, bytes.readUInt16LE(1026)]).toEqual([1028, 20240520, 1, 2, 8]);
    expect(readdirSync(place.folder).filter((name) => name.endsWith('.tmp'))).toEqual([]);
  });

  it('knows the hash of its file once all of it was read', () => {
    const path = place.path('hashed.bin');
    // More than are read at a time.
    const { sha256 } = writeShard(
      path,
      Uint16Array.from({ length: (1 << 20) + 77 }, (_, i) => (i * 7919) % 50257),
    );
    using shard = openShard(path);
    expect(shard.sha256).toBeUndefined();
    shard.checkTokens(50257);
    expect(shard.sha256).toBe(sha256);
    expect(sha256).toBe(createHash('sha256').update(readFileSync(path)).digest('hex'));
  });

  it.each<[string, (bytes: Buffer) => Buffer, string]>([
    ['another magic', header(0, 20240521), 'begins with 20240521, not 20240520'],
    ['another version', header(1, 2), 'its version is 2, not 1'],
    ['a larger count', header(2, 11), 'says 11 tokens, 1046 bytes in all, but it has 1044'],
    ['a negative count', header(2, -1), 'says -1 tokens'],
    ['a later field', header(3, 1), 'int 3 of its header is 1, not 0'],
    ['half a token', cut(1043), 'but it has 1043'],
    ['nothing', cut(0), "it has 0 bytes, less than the header's 1024"],
  ])('with %s is refused', (_, change, message) => {
    const path = place.path('bad.bin');
    writeShard(path, new Uint16Array(10));
    writeFileSync(path, change(readFileSync(path)));
    expect(() => openShard(path)).toThrow(message);
  });

  it('that is a folder or missing is refused', () => {
    mkdirSync(place.path('folder.bin'));
    expect(() => openShard(place.path('folder.bin'))).toThrow('folder.bin');
    expect(() => openShard(place.path('none.bin'))).toThrow(/none\.bin cannot be opened/);
  });

  it('that cannot be written says where', () => {
    expect(() => writeShard(place.path('header.bin', 'x.bin'), new Uint16Array(1))).toThrow(/cannot write .*x\.bin/);
  });
});

describe('a shard whose file changes', () => {
  const tokens = Uint16Array.from({ length: 500 }, (_, i) => i);
  const old = new Date('2026-01-01T00:00:00Z');
  const path = place.path('changing.bin');
  const opened = () => {
    writeShard(path, tokens);
    // Longer ago than the file system's clock ticks.
    utimesSync(path, old, old);
    return openShard(path);
  };
  const message = /changing\.bin changed while it was being read; restore it and resume the run, or start/;

  it('by another file that takes its name is read on', () => {
    using shard = opened();
    writeShard(path, new Uint16Array(7));
    shard.checkTokens(500);
    expect([...shard.read(0, 500)]).toEqual([...tokens]);
  });

  it.each<[string, () => void]>([
    [
      'by other tokens in the same place',
      () => writeFileSync(path, readFileSync(path).fill(7, 1500, 1501), { flag: 'r+' }),
    ],
    ['by a file written over it', () => writeFileSync(path, readFileSync(path))],
    ['by a later time of change alone', () => utimesSync(path, old, new Date())],
    ['by tokens after its end', () => appendFileSync(path, '12')],
    ['by being cut', () => truncateSync(path, 1124)],
    ['by being emptied', () => truncateSync(path, 0)],
  ])('%s is refused', (_, change) => {
    using shard = opened();
    expect(shard.read(100, 2)).toEqual(Uint16Array.of(100, 101));
    change();
    expect(() => shard.read(0, 10)).toThrow(message);
    expect(() => shard.read(490, 10)).toThrow(message);
    expect(() => shard.checkTokens(500)).toThrow(message);
    expect(shard.sha256).toBeUndefined();
  });

  it('after its hash is known, only in its times, or by being written over with the same, is read on', () => {
    using shard = opened();
    shard.checkTokens(500);
    utimesSync(path, 1, 1);
    expect([...shard.read(0, 500)]).toEqual([...tokens]);
    writeFileSync(path, readFileSync(path));
    utimesSync(path, 2, 2);
    expect([...shard.read(100, 3)]).toEqual([100, 101, 102]);
    // In one bit.
    writeFileSync(path, readFileSync(path).fill(tokens[238]! ^ 1, 1500, 1501));
    utimesSync(path, 1, 1);
    expect(() => shard.read(0, 10)).toThrow(message);
  });
});

describe('findShards', () => {
  const folderOf = (name: string, files: string[]): string => {
    for (const file of files) place.file(join(name, file), '');
    return place.path(name);
  };

  it('takes .bin files by role, sorted bytewise', () => {
    const ofTrain = ['x_train_000002.bin', 'x_train_000001.bin', 'X_train_000003.bin'];
    const others = ['notes_train.txt', 'training.bin', 'validity.bin'];
    const folder = folderOf('roles', [...ofTrain, 'x_val.bin', ...others]);
    expect(findShards(folder, 'train')).toEqual(
      ['X_train_000003.bin', 'x_train_000001.bin', 'x_train_000002.bin'].map((name) => join(folder, name)),
    );
    expect(findShards(folder, 'val')).toEqual([join(folder, 'x_val.bin')]);
  });

  it('refuses a file of both roles, a role that is not there, a folder that is not there', () => {
    expect(() => findShards(folderOf('both', ['train_val.bin']), 'val')).toThrow('is named both train and val');
    expect(() => findShards(folderOf('none', ['train.bin']), 'val')).toThrow('has no val shard');
    expect(() => findShards(place.path('nowhere'), 'val')).toThrow(
      /nowhere does not exist; name another with --data.* or make it: `(npm run|npx gpt2) prepro/,
    );
  });

  it('names the command that makes a folder of ours', () => {
    expect(preproOf).toMatchObject({
      'data/tinyshakespeare': 'npm run prepro tinyshakespeare',
      'data/tinyshakespeare-bytes': 'npm run prepro tinyshakespeare -- --tokenizer bytes',
      'data/tinyshakespeare-char': 'npm run prepro tinyshakespeare -- --tokenizer char',
      'data/moby-dick': 'npm run prepro moby-dick',
      'data/own-source': 'npm run prepro own-source',
      'data/tinystories': 'npm run prepro tinystories',
      'data/fineweb10B': 'npm run prepro fineweb -- --version 10B',
      'data/edu_fineweb10B': 'npm run prepro fineweb -- --version edu',
    });
  });

  it('dataset.json: absent is fine, damaged is not', () => {
    expect(readDataset(place.path('roles'))).toBeUndefined();
    place.file('roles/dataset.json', '{"source": "x"}');
    expect(() => readDataset(place.path('roles'))).toThrow(/dataset\.json is damaged: .*vocabularySize/);
  });

  it('refuses a shard that dataset.json lists and the folder lacks', () => {
    const folder = folderOf('listed', ['x_train_000001.bin', 'x_val.bin']);
    const row = (file: string, role: string) => ({ file, role, tokens: 1, sha256: '' });
    const shards = [row('x_train_000001.bin', 'train'), row('x_train_000002.bin', 'train'), row('x_val.bin', 'val')];
    const dataset = { source: 'x', tokenizer: 'gpt2', vocabularySize: 50257, shards };
    place.file('listed/dataset.json', JSON.stringify(dataset));
    expect(findShards(folder, 'val')).toEqual([join(folder, 'x_val.bin')]);
    expect(() => findShards(folder, 'train')).toThrow(
      /listed lacks x_train_000002\.bin, which its dataset\.json lists; restore the shard, or run prepro again/,
    );
    place.file('listed/dataset.json', JSON.stringify({ ...dataset, shards: [row('x_val.bin', 'train')] }));
    expect(() => findShards(folder, 'train')).toThrow('dataset.json lists x_val.bin as train, unlike its name');
  });
});

const path = place.path('questions.bin');

const two: Question[] = [
  { label: 1, context: Uint16Array.of(5, 6), completions: [Uint16Array.of(7), Uint16Array.of(8, 9)] },
  { label: 0, context: Uint16Array.of(1), completions: [Uint16Array.of(2), Uint16Array.of(3), Uint16Array.of(65534)] },
];

it('is what the format says, word for word', () => {
  writeQuestions(path, two);
  const bytes = Uint8Array.from(readFileSync(path));
  expect([...new Int32Array(bytes.buffer, 0, 256)]).toEqual([20240522, 1, 2, 26, ...new Array(252).fill(0)]);
  expect([...new Uint16Array(bytes.buffer, 1024)]).toEqual([
    ...[65535, 26, 0, 1, 2, 2, 5, 6, 1, 7, 2, 8, 9],
    ...[65535, 26, 1, 0, 3, 1, 1, 1, 2, 1, 3, 1, 65534],
  ]);
});

it('is read back as it was written', () => {
  const questions = randomQuestions(300, { vocabulary: 50257, longest: 200 });
  writeQuestions(path, questions);
  expect(readQuestions(path)).toEqual(questions);
});

/** Sets a word, from the first question on. */
const word = (at: number, value: number) => (bytes: Buffer) => {
  bytes.writeUInt16LE(value, 1024 + 2 * at);
  return bytes;
};

it.each<[what: string, change: (bytes: Buffer) => Buffer, message: string]>([
  ['another magic', header(0, 20240520), 'it begins with 20240520, not 20240522'],
  ['another version', header(1, 2), 'its version is 2, not 1'],
  ['no questions', header(2, 0), 'its header says 0 questions'],
  ['a negative number of questions', header(2, -1), 'its header says -1 questions'],
  ['too many questions', header(2, 3), 'question 2 of 3 is missing or cut off'],
  ['too few questions', header(2, 1), '26 bytes follow its last question'],
  ['a longest that is not', header(3, 24), 'question 0 of 2 has 26 bytes, the longest according to the header 24'],
  ['a later field', header(4, 1), 'int 4 of its header is 1, not 0'],
  ['no marker', word(0, 7), 'question 0 of 2 begins with 7, not 65535'],
  ['a size of no words', word(1, 25), 'question 0 of 2 says it has 25 bytes'],
  ['a size under the least', word(1, 10), 'question 0 of 2 says it has 10 bytes'],
  ['a size that is too short', word(1, 24), 'question 0 of 2 has a completion 1 of 2 tokens'],
  ['another index', word(2, 5), 'question 0 of 2 has the index 5'],
  ['a label beyond', word(3, 2), 'question 0 of 2 has the label 2 for 2 completions'],
  ['one completion', word(4, 1), 'question 0 of 2 has 1 completions'],
  ['more completions than there are', word(4, 60000), 'has a completion 2 of undefined tokens'],
  ['fewer completions', word(13 + 4, 2), 'question 1 of 2 has 4 bytes after its completions'],
  ['an empty context', word(5, 0), 'question 0 of 2 has a context of 0 tokens'],
  ['a context that is too long', word(5, 60000), 'has a context of 60000 tokens'],
  ['an empty completion', word(8, 0), 'has a completion 0 of 0 tokens'],
  ['a marker among the tokens', word(6, 65535), 'has the token 65535 in its context'],
  ['a torn end', cut(-2), 'question 1 of 2 is cut off'],
  ['half a word', cut(-1), 'an odd number'],
  ['half a header', cut(100), 'it has 100 bytes'],
])('with %s is refused', (_, change, message) => {
  writeQuestions(path, two);
  writeFileSync(path, change(readFileSync(path)));
  expect(() => readQuestions(path)).toThrow(Gpt2Error);
  expect(() => readQuestions(path)).toThrow(message);
});

it('that is not there, or a folder, is refused', () => {
  expect(() => readQuestions(place.path('missing'))).toThrow(/no questions in .*missing: run `np.* prepro hellaswag`/);
  expect(() => readQuestions(place.folder)).toThrow('it is not a regular file');
});

it('does not take what the format has no room for', () => {
  const long = { ...two[0]!, context: new Uint16Array(40_000) };
  expect(() => writeQuestions(path, [two[0]!, long])).toThrow('question 1 is too long for');
  expect(() => writeQuestions(path, [])).toThrow('cannot hold 0 questions, only 1 to 65535');
  expect(() => writeQuestions(path, new Array(65_536).fill(two[0]))).toThrow('cannot hold 65536 questions');
});
