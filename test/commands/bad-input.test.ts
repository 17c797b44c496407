// What goes wrong in files and runs, step by step, and what the program says: one clear line, exit 1, nothing half-written.
// What is wrong as it is typed is in wrong-inputs.test.ts.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { resolveCheckpoint } from '../../src/weights/checkpoint/directory.ts';
import { tinyModel, workplace } from '../support/cli.ts';
import { expectRefusal } from '../support/refusal.ts';

const place = workplace();
let data: string;
beforeAll(() => {
  data = place.data();
});

/** Runs a command and expects it to fail with a message in which each of `where` is named. */
function refused(args: string[], what: string | RegExp, where: string[], env: Record<string, string> = {}): void {
  expectRefusal(place.run(args, env), { code: 1, what, where });
}

const train = (...args: string[]) => [
  'train',
  '--data',
  data,
  '--out',
  place.path('run'),
  '--steps',
  '1',
  ...tinyModel,
  ...args,
];

describe('wrong in the files', () => {
  /** A copy of the good data with one thing changed. */
  function damaged(name: string, change: (folder: string) => void): string {
    const folder = place.path(name);
    cpSync(data, folder, { recursive: true });
    change(folder);
    return folder;
  }
  const shard = 'random_train.bin';
  const withHeader = (folder: string, index: number, value: number) => {
    const bytes = readFileSync(join(folder, shard));
    bytes.writeInt32LE(value, index * 4);
    writeFileSync(join(folder, shard), bytes);
  };

  it('no training shard', () => {
    const folder = place.path('only-val');
    mkdirSync(folder);
    cpSync(join(data, 'random_val.bin'), join(folder, 'random_val.bin'));
    refused(train('--data', folder), 'has no train shard', ['only-val', 'prepro']);
  });

  it.each([
    [
      'truncated',
      (folder: string) => truncateSync(join(folder, shard), 3000),
      /header says 5000 tokens, 11024 bytes in all, but it has 3000/,
    ],
    ['wrong magic', (folder: string) => withHeader(folder, 0, 1), /begins with 1, not 20240520/],
    ['wrong version', (folder: string) => withHeader(folder, 1, 7), /version is 7, not 1/],
    [
      'a token outside the vocabulary',
      (folder: string) => {
        const bytes = readFileSync(join(folder, shard));
        bytes.writeUInt16LE(60000, 1024 + 2 * 77);
        writeFileSync(join(folder, shard), bytes);
      },
      /token 60000 at position 77, outside the vocabulary of 50257/,
    ],
  ] as [string, (folder: string) => void, RegExp][])('a shard that is %s', (name, change, message) => {
    const folder = damaged(`shard ${name}`, change);
    refused(train('--data', folder), message, [shard]);
    expect(existsSync(place.path('run'))).toBe(false);
  });

  it('an --out that already holds a run', () => {
    const out = place.path('twice');
    const args = ['--out', out, '--val-every', '0', '--sample-every', '0'];
    place.ok(train(...args));
    const log = readFileSync(join(out, 'log.jsonl'));
    refused(train(...args), /already holds a run/, [out, '--resume', '--overwrite', '--out']);
    expect(readFileSync(join(out, 'log.jsonl')).equals(log)).toBe(true);
  });

  it('data that is not what the run was trained on', () => {
    const own = place.data({ train: 3000, name: 'replaced' });
    const args = ['--out', place.path('elsewhere'), '--val-every', '0', '--sample-every', '0'];
    place.ok(['train', '--data', own, ...tinyModel, ...args, '--steps', '4', '--stop-after', '2']);
    const { manifest } = resolveCheckpoint(place.path('elsewhere'));
    const resume = ['train', '--out', place.path('elsewhere'), '--resume'];
    const shard = join(own, 'random_train.bin');
    const bytes = readFileSync(shard);
    bytes[2000]! ^= 1;
    writeFileSync(shard, bytes);
    const [was, is] = [manifest.shards[0]!.sha256!, createHash('sha256').update(bytes).digest('hex')];
    const changed = `shard 0, random_train.bin, had the sha256 ${was.slice(0, 12)}…, now it has ${is.slice(0, 12)}…`;
    refused(resume, changed, [own, '--data']);
    place.data({ train: 3001, name: 'replaced' });
    refused(resume, /shard 0 was random_train\.bin of 3000 tokens, now it is random_train\.bin of 3001 tokens/, [own]);
    const other = place.data({ train: 4000, name: 'other' });
    const { stdout } = place.ok([...resume, '--data', other]);
    expect(stdout).toMatch(/--data .*other in place of the run's .*replaced/);
  });

  it('a library that is not there', () => {
    const none = place.path('none.so');
    refused(train('--out', place.path('unbuilt')), /^there is no /, [none, 'GPT2_LIBRARY names it'], {
      GPT2_LIBRARY: none,
    });
    expect(existsSync(place.path('unbuilt'))).toBe(false);
  });
});

it('leaves no temporary files behind', () => {
  const names = readdirSync(place.folder, { recursive: true, encoding: 'utf8' });
  expect(names.filter((name) => name.endsWith('.tmp'))).toEqual([]);
});
