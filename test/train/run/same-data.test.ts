// Describes the first difference between the shards of a checkpoint and the current ones.
import { expect, it } from 'vitest';
import { changedShard } from '../../../src/train/run/same-data.ts';

const a = { name: 'a_train.bin', tokens: 300, sha256: 'a'.repeat(64) };
const b = { name: 'b_train.bin', tokens: 200, sha256: 'b'.repeat(64) };

it('the same shards are the same, with or without a hash of before', () => {
  const { name, tokens } = b;
  expect(changedShard([a, b], [a, b])).toBeUndefined();
  expect(changedShard([a, { name, tokens }], [a, b])).toBeUndefined();
});

it.each([
  ['a name', [{ ...a, name: 'c.bin' }, b], 'shard 0 was a_train.bin of 300 tokens, now it is c.bin of 300 tokens'],
  ['a length', [a, { ...b, tokens: 7 }], 'shard 1 was b_train.bin of 200 tokens, now it is b_train.bin of 7 tokens'],
  ['one less', [a], 'shard 1 was b_train.bin of 200 tokens, now it is missing'],
  ['one more', [a, b, a], 'shard 2 was missing, now it is a_train.bin of 300 tokens'],
  [
    'contents',
    [a, { ...b, sha256: a.sha256 }],
    'shard 1, b_train.bin, had the sha256 bbbbbbbbbbbb…, now it has aaaaaaaaaaaa…',
  ],
])('%s', (_, now, difference) => {
  expect(changedShard([a, b], now)).toBe(difference);
});
