// Damages a file's bytes as disks, transfers and people do: bits, spans, lengths, numbers, structure.
import type { Random } from '../../src/ops/cases/case-numbers.ts';

/** Values that break integers: signs, widths, what doubles no longer hold. */
const integers = [
  ...[0n, 1n, -1n, 0x7fn, 0xffn, 0x7fffn, 0xffffn, 0x7fffffffn, 0x80000000n, 0xffffffffn],
  ...[2n ** 53n - 1n, 2n ** 53n + 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n],
];

/** JSON values that stand where something else is expected. */
const values = [
  ...['0', '-1', '0.5', '1e309', '-0', '9007199254740993', '18446744073709551615', '1e-400', '2147483648'],
  ...['null', 'true', '[]', '{}', '""', '"../x"', '"\\u0000"', '"\\ud800"', '"NaN"', '[[]]', '{"__proto__":1}'],
  '[0,18446744073709551615]',
];

/** Keys that an object has without being told. */
const keys = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', '', 'a\\u0000b'];

const spaces = ' '.repeat(4096);
const deep = '['.repeat(20_000);

/** A damaged copy of one of the seeds: one to four mutations, one after the other. */
export function mutate(random: Random, seeds: readonly Uint8Array[]): Uint8Array {
  const below = (count: number) => Math.floor(random.uniform() * count);
  const pick = <T>(from: readonly T[]): T => from[below(from.length)]!;
  let bytes = Buffer.from(pick(seeds));
  const replace = (from: number, to: number, by: Uint8Array | string) => {
    bytes = Buffer.concat([bytes.subarray(0, from), Buffer.from(by as string), bytes.subarray(to)]);
  };
  /** Where a match of a pattern begins and ends, or undefined. */
  const find = (pattern: RegExp): [number, number] | undefined => {
    const matches = [...bytes.toString('latin1').matchAll(pattern)];
    if (matches.length === 0) return undefined;
    const match = pick(matches);
    return [match.index, match.index + match[0].length];
  };
  const mutations = [
    () => {
      if (bytes.length > 0) bytes[below(bytes.length)]! ^= 1 << below(8);
    },
    () => {
      if (bytes.length > 0) bytes[below(bytes.length)] = below(256);
    },
    () => {
      bytes = bytes.subarray(0, below(bytes.length + 1));
    },
    () => {
      const from = below(bytes.length + 1);
      replace(from, Math.min(bytes.length, from + 1 + below(16)), '');
    },
    () => {
      const from = below(bytes.length + 1);
      replace(from, from, bytes.subarray(from, from + 1 + below(64)));
    },
    () => {
      const at = below(bytes.length + 1);
      const other = Buffer.from(pick(seeds));
      replace(at, bytes.length, other.subarray(below(other.length + 1)));
    },
    () => {
      const width = pick([4, 8]);
      if (bytes.length < width) return;
      const at = below(Math.floor(bytes.length / width)) * width;
      let value = pick(integers);
      if (random.uniform() < 0.5) value += width === 8 ? bytes.readBigInt64LE(at) : BigInt(bytes.readInt32LE(at));
      if (width === 8) bytes.writeBigUInt64LE(BigInt.asUintN(64, value), at);
      else bytes.writeUInt32LE(Number(BigInt.asUintN(32, value)), at);
    },
    () => {
      const place = find(/-?\d+(\.\d+)?(e-?\d+)?|"[^"]*"|true|false|null/g);
      if (place) replace(...place, pick(values));
    },
    () => {
      const place = find(/"[^"]*"(?=\s*:)/g);
      if (place) replace(...place, JSON.stringify(pick(keys)));
    },
    () => {
      const place = find(/[{[]/g);
      if (place) replace(place[1], place[1], pick([`"${pick(keys)}":1,`, '1,', deep, spaces, '"a":1,"a":2,']));
    },
  ];
  for (let count = 1 + below(4); count > 0; count--) pick(mutations)();
  return bytes;
}
