// The loader over real shards: tokens and targets, positions, what is refused, what validation settles for.
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { Gpt2Error } from '../../src/base/errors.ts';
import { checkedJson } from '../../src/base/files/checked-json.ts';
import { hashFile } from '../../src/base/files/regular-file.ts';
import { openLoader, planValidation } from '../../src/data/batches/loader.ts';
import { writeShard } from '../../src/data/shards/shard.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();
const counting = (name: string, count: number): string => {
  writeShard(place.path(name), Uint16Array.from(Array(count).keys()));
  return place.path(name);
};
const shard = counting('a.bin', 1000);

const options = { batch: 2, sequence: 10, order: 'file' as const, seed: 42, vocabularySize: 1000 };
const open = (more: object = {}) => openLoader({ ...options, shards: [shard], ...more });

it('gives inputs and the tokens that follow them', () => {
  using loader = open();
  loader.next();
  const { inputs, targets } = loader.next();
  expect([...inputs]).toEqual(Array.from({ length: 20 }, (_, index) => 20 + index));
  expect([...targets]).toEqual(Array.from({ length: 20 }, (_, index) => 21 + index));
});

it.each(['llmc', 'file', 'sequence'] as const)('order %s: seek goes on exactly there', (order) => {
  using loader = open({ order, shards: [shard, counting('b.bin', 300)] });
  for (let index = 0; index < 37; index++) loader.next();
  const position = JSON.parse(JSON.stringify(loader.position)) as typeof loader.position;
  const wanted = Array.from({ length: 70 }, () => loader.next().inputs.slice());
  using other = open({ order, shards: [shard, place.path('b.bin')] });
  other.seek(position);
  for (const batch of wanted) expect(other.next().inputs).toEqual(batch);
});

it.each(['llmc', 'file', 'sequence'] as const)(
  'order %s: a position that the shards do not have is refused',
  (order) => {
    using loader = open({ order, shards: [shard, counting('b.bin', 300)] });
    for (const position of [
      { epoch: 0, shard: 2, sample: 0 },
      { epoch: 0, shard: 0, sample: 1000 },
      { epoch: Number.MAX_SAFE_INTEGER, shard: 0, sample: 0 },
    ]) {
      expect(() => loader.seek(position)).toThrow(/no sample \d+ of shard \d in pass \d+ over .*from other data/);
    }
    expect(loader.position).toEqual({ epoch: 0, shard: 0, sample: 0 });
  },
);

it('goes on in the files it opened when others take their names', () => {
  const paths = [counting('c.bin', 300), counting('d.bin', 200)];
  const batches = (meanwhile: () => void) => {
    using loader = open({ order: 'llmc', shards: paths });
    return Array.from({ length: 60 }, (_, index) => {
      if (index === 30) meanwhile();
      return [...loader.next().inputs];
    });
  };
  const wanted = batches(() => {});
  const replaced = batches(() => {
    for (const path of paths) writeShard(path, new Uint16Array(250));
  });
  expect(replaced).toEqual(wanted);
});

it('the same total batch sees the same tokens in any split, in file order', () => {
  const tokens = (batch: number) => {
    using loader = open({ batch });
    return Array.from({ length: 48 / batch }, () => [...loader.next().inputs]).flat();
  };
  expect(tokens(4)).toEqual(tokens(8));
  expect(tokens(2)).toEqual(tokens(8));
});

it('refuses a token outside the vocabulary, a shard too short, no shard and a rank too many', () => {
  expect(() => open({ shards: [] })).toThrow('shards names no file');
  expect(() => open({ rank: 2, ranks: 2 })).toThrow('rank 2 is none of 2 ranks');
  expect(() => open({ vocabularySize: 999 })).toThrow(/a\.bin holds the token 999 at position 999/);
  const short = counting('short.bin', 20);
  expect(() => open({ shards: [short] })).toThrow(/short\.bin has 20 tokens.*the largest --batch that fits is 1/);
  expect(() => open({ shards: [counting('tiny.bin', 5)] })).toThrow(/--seq must be under 5/);
});

it('compares shards with dataset.json beside them', () => {
  place.file('listed/dataset.json', '');
  const path = counting('listed/one_train.bin', 300);
  const list = (file: string) => {
    const shards = [{ file, role: 'train', tokens: 300, sha256: hashFile(path) }];
    const dataset = { source: 'x', tokenizer: 'gpt2', vocabularySize: 1000, shards };
    place.file('listed/dataset.json', checkedJson(dataset));
  };
  const check = () => open({ shards: [path] }).close();
  list('one_train.bin');
  check();
  // A token that is another one's, and still in the vocabulary; then one outside it.
  for (const byte of [1500, 1501]) {
    const bytes = readFileSync(path);
    bytes[byte]! ^= 0x81;
    writeFileSync(path, bytes);
    expect(check).toThrow(
      /one_train\.bin is damaged: its sha256 is [0-9a-f]{12}…, but .*dataset\.json says [0-9a-f]{12}…; restore the shard, or run prepro again/,
    );
  }
  list('other_train.bin');
  expect(check).toThrow(/one_train\.bin is not listed in .*dataset\.json/);
});

it('says that it is closed', () => {
  const loader = open();
  loader.close();
  expect(() => loader.next()).toThrow(new Gpt2Error('the loader is closed; open another'));
});

it('validation takes the batch asked for, the largest that fits, or none', () => {
  expect(planValidation({ shards: [shard], batch: 4, sequence: 10 })).toEqual({ batch: 4, ranks: 1, batches: 24 });
  const short = counting('val.bin', 35);
  const less = planValidation({ shards: [short], batch: 4, sequence: 10 });
  expect(less.batch).toBe(3);
  expect(less.notice).toContain('batches of 3');
  const none = planValidation({ shards: [short], batch: 4, sequence: 35 });
  expect(none.batch).toBe(0);
  expect(none.notice).toContain('validation is off');
});

it('validation of ranks takes the batch that fits all, or the same in each where not even a sequence each does', () => {
  const short = counting('val.bin', 35);
  const sizes = { shards: [short], batch: 4, sequence: 10 };
  expect(planValidation({ ...sizes, batch: 1, ranks: 3 })).toEqual({ batch: 1, ranks: 3, batches: 1 });
  expect(planValidation({ ...sizes, ranks: 2 })).toMatchObject({ batch: 1, ranks: 2 });
  expect(planValidation({ ...sizes, ranks: 2 }).notice).toContain('batches of 2: its 35 tokens do not hold 8 sequence');
  expect(planValidation({ ...sizes, ranks: 8 })).toMatchObject({ batch: 3, ranks: 1, batches: 1 });
});
