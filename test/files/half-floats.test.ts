// E4M3: conversions against the nearest of its 256 numbers, by search.
import { expect, it } from 'vitest';
import { fromBf16, fromE4m3, toE4m3 } from '../../src/base/files/half-floats.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';

const numbers = fromE4m3(Uint8Array.from({ length: 256 }, (_, bits) => bits));

/** The bits of the nearest positive number, of two the even one. */
function nearest(size: number): number {
  let best = 0;
  for (let bits = 1; bits < 0x7f; bits++) {
    const [error, least] = [Math.abs(numbers[bits]! - size), Math.abs(numbers[best]! - size)];
    if (error < least || (error === least && bits % 2 === 0)) best = bits;
  }
  return best;
}

it('has the range of E4M3', () => {
  expect([1, 7, 8, 0x38, 0x7e, 0x80, 0xb8].map((bits) => numbers[bits])).toEqual([
    ...[2 ** -9, 7 * 2 ** -9, 2 ** -6, 1, 448, -0, -1],
  ]);
  expect([numbers[0x7f], numbers[0xff]]).toEqual([Number.NaN, Number.NaN]);
});

it('rounds to the nearest, of two to the even one, and saturates', () => {
  // Every positive bf16, which all numbers halfway between two of E4M3 are; and others.
  const values = [
    ...fromBf16(Uint16Array.from({ length: 0x7f81 }, (_, bits) => bits)),
    ...new Random(1).normals(10_000).map(Math.abs),
  ];
  const wanted = values.map(nearest);
  expect(Buffer.from(toE4m3(values)).equals(Buffer.from(wanted))).toBe(true);
  const negative = toE4m3(values.map((value) => -value));
  expect(Buffer.from(negative).equals(Buffer.from(wanted.map((bits) => bits | 0x80)))).toBe(true);
  expect(numbers[toE4m3([Number.NaN])[0]!]).toBeNaN();
});
