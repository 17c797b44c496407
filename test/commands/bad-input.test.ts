// What goes wrong, and what the program says: one clear line, exit 1 or 2, nothing half-written.
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resolveCheckpoint } from '../../src/checkpoint/directory.ts';
import { tinyModel, Workplace } from '../support/cli.ts';

let place: Workplace;
let data: string;
beforeAll(() => {
  place = new Workplace();
  data = place.data();
});
afterAll(() => place[Symbol.dispose]());

/** Runs `train` and expects it to fail with a code and a message of one line. */
function refused(args: string[], code: number, message: string | RegExp, env: Record<string, string> = {}): void {
  const result = place.run(args, env);
  expect(result.stderr).toMatch(message);
  expect(result.code).toBe(code);
  expect(result.stderr.trim().split('\n').length, result.stderr).toBeLessThanOrEqual(2);
  expect(result.stderr).not.toContain('    at ');
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

describe('wrong from the command line alone: exit 2', () => {
  it.each([
    [['--batchsize', '4'], /unknown option '--batchsize'/],
    [['--step', '4'], /unknown option '--step'[\s\S]*Did you mean --steps\?/],
    [['--lr', 'abc'], '--lr takes a number of at least 0, not "abc"'],
    [['--lr', '-1'], '--lr takes a number of at least 0, not "-1"'],
    [['--batch', '0'], '--batch takes a whole number from 1 to 65536 or auto, not "0"'],
    [['--batch', '2.5'], '--batch takes a whole number from 1 to 65536 or auto, not "2.5"'],
    [['--batch', '0x10'], '--batch takes a whole number'],
    [['--seed', '4294967296'], '--seed takes a whole number from 0 to 4294967295'],
    [['--schedule', 'cosin'], '--schedule takes one of cosine, linear, constant, wsd, not "cosin"'],
    [['--dtype', 'fp16'], '--dtype takes one of fp32, tf32, bf16, not "fp16"'],
    [['--device', 'tpu'], '--device takes auto, cpu, cuda or cuda:N, not "tpu"'],
    [['--seq', '65'], "--seq 65 is over the model's context of 64 positions"],
    [['--total-batch', '300'], '--total-batch 300 is not a multiple of --batch 4 x --seq 64 = 256 tokens'],
    [['--heads', '3'], 'channels 32 are not divisible by heads 3'],
    [['--warmup', '5'], '--warmup 5 is over --steps 1'],
    [['--model', 'd7'], /--model takes d6, .*there is no d7/],
    [['--resume', '--overwrite'], '--resume and --overwrite exclude each other'],
    [['surplus'], /too many arguments/],
  ] as [string[], string | RegExp][])('%s', (args, message) => {
    refused(train(...args), 2, message);
    expect(existsSync(place.path('run'))).toBe(false);
  });

  it('T over 1024 for a preset', () => {
    refused(
      ['train', '--model', 'd6', '--seq', '1025', '--data', data],
      2,
      "--seq 1025 is over the model's context of 1024",
    );
  });

  it('--resume without --out', () => {
    refused(['train', '--resume', '--data', data], 2, '--resume needs --out');
  });

  it('an unknown command, and none', () => {
    refused(['trian'], 2, /unknown command 'trian'[\s\S]*Did you mean train\?/);
    expect(place.run([]).code).toBe(2);
  });

  it('an unknown data set', () => {
    refused(
      ['prepro', 'tinyshakespear'],
      2,
      'there is no data set "tinyshakespear"; there are tinyshakespeare, own-source',
    );
  });
});

describe('wrong in the files: exit 1', () => {
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

  it('no data folder', () => {
    refused(
      ['train', '--device', 'cpu'],
      1,
      /there is no data in data\/tinyshakespeare: run `npm run prepro tinyshakespeare`/,
    );
  });

  it('no training shard', () => {
    const folder = place.path('only-val');
    mkdirSync(folder);
    cpSync(join(data, 'random_val.bin'), join(folder, 'random_val.bin'));
    refused(train('--data', folder), 1, 'has no train shard');
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
      'a token beyond the vocabulary',
      (folder: string) => {
        const bytes = readFileSync(join(folder, shard));
        bytes.writeUInt16LE(60000, 1024 + 2 * 77);
        writeFileSync(join(folder, shard), bytes);
      },
      /token 60000 at position 77, beyond the vocabulary of 50257/,
    ],
  ] as [string, (folder: string) => void, RegExp][])('a shard that is %s', (name, change, message) => {
    const folder = damaged(`shard ${name}`, change);
    refused(train('--data', folder), 1, message);
    expect(existsSync(place.path('run'))).toBe(false);
  });

  it('a shard too short for one batch names the largest that fits', () => {
    const short = place.data({ train: 200, name: 'short' });
    refused(
      train('--data', short),
      1,
      /has 200 tokens, too few for 4 sequences of 64; the largest --batch that fits is 3/,
    );
  });

  it('an empty text', () => {
    writeFileSync(place.path('empty.txt'), '\n \n');
    refused(['prepro', 'tinyshakespeare', '--from', 'empty.txt'], 1, 'the text empty.txt is empty');
    refused(['prepro', 'tinyshakespeare', '--from', 'none.txt'], 1, 'the text none.txt cannot be read');
    expect(existsSync(place.path('data', 'tinyshakespeare'))).toBe(false);
  });

  it('an --out that cannot be written', () => {
    writeFileSync(place.path('file'), '');
    refused(train('--out', place.path('file', 'run')), 1, /cannot write the run folder .*; name another with --out/);
  });

  it('an --out that already holds a run', () => {
    const out = place.path('twice');
    const args = ['--out', out, '--val-every', '0', '--sample-every', '0'];
    expect(place.run(train(...args)).code).toBe(0);
    const log = readFileSync(join(out, 'log.jsonl'));
    refused(train(...args), 1, /already holds a run: continue it with --resume, replace it with --overwrite/);
    expect(readFileSync(join(out, 'log.jsonl')).equals(log)).toBe(true);
  });

  it('a checkpoint of another model', () => {
    const out = place.path('twice');
    refused(train('--model', out, '--layers', '2'), 1, /is of another model: layers 1 instead of 2/);
    refused(
      ['train', '--out', out, '--resume', '--layers', '2'],
      1,
      /cannot resume .* with --layers 2: it was trained with 1/,
    );
  });

  it('data that is not what the run was trained on', () => {
    const own = place.data({ train: 3000, name: 'replaced' });
    const args = ['--out', place.path('elsewhere'), '--val-every', '0', '--sample-every', '0'];
    const stopped = place.run(['train', '--data', own, ...tinyModel, ...args, '--steps', '4', '--stop-after', '2']);
    expect(stopped.code, stopped.stderr).toBe(0);
    const { manifest } = resolveCheckpoint(place.path('elsewhere'));
    const resume = ['train', '--out', place.path('elsewhere'), '--resume'];
    const shard = join(own, 'random_train.bin');
    const bytes = readFileSync(shard);
    bytes[2000]! ^= 1;
    writeFileSync(shard, bytes);
    const [was, is] = [manifest.shards[0]!.sha256!, createHash('sha256').update(bytes).digest('hex')];
    refused(
      resume,
      1,
      `shard 0, random_train.bin, had the sha256 ${was.slice(0, 12)}…, now it has ${is.slice(0, 12)}…`,
    );
    place.data({ train: 3001, name: 'replaced' });
    refused(resume, 1, /shard 0 was random_train\.bin of 3000 tokens, now it is random_train\.bin of 3001 tokens/);
    const other = place.data({ train: 4000, name: 'other' });
    const { code, stdout } = place.run([...resume, '--data', other]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/--data .*other in place of the run's .*replaced/);
  });

  it('a library that is not built', () => {
    const none = place.path('none.so');
    refused(train('--out', place.path('unbuilt')), 1, /the cpu library is not built: .*; run `npm run build:cpu`/, {
      GPT2_LIBRARY: none,
    });
    expect(existsSync(place.path('unbuilt'))).toBe(false);
  });

  it('a run or a checkpoint that is not there', () => {
    refused(['compare', 'nowhere'], 1, /nowhere is not a run folder/);
    refused(['sample', '--model', 'nowhere'], 1, /there is no nowhere: name a run or a checkpoint folder/);
    refused(['sample'], 1, /there is no trained model in runs\//);
    refused(['train', '--resume', '--out', 'nowhere'], 1, /there is no run to resume in nowhere/);
  });

  it('an options file that is damaged or names an unknown option', () => {
    writeFileSync(place.path('options.json'), '{"batch": 2, "bach": 3}');
    refused(train('--config', place.path('options.json')), 2, /options.json: there is no option "bach"/);
    writeFileSync(place.path('options.json'), '{');
    refused(train('--config', place.path('options.json')), 1, /options.json cannot be read/);
  });
});

it('leaves no temporary files behind', () => {
  const names = readdirSync(place.folder, { recursive: true, encoding: 'utf8' });
  expect(names.filter((name) => name.endsWith('.tmp'))).toEqual([]);
});
