// Files and their contents: folders that are made, JSON with its own checksum, conversions to E4M3.
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { orElse } from '../../src/base/errors.ts';
import { checkedJson, readCheckedJson } from '../../src/base/files/checked-json.ts';
import { fromBf16, fromE4m3, toE4m3 } from '../../src/base/files/half-floats.ts';
import { makeFolder } from '../../src/base/files/make-folder.ts';
import { parseJson } from '../../src/base/files/strict-text.ts';
import { Random } from '../../src/ops/cases/case-numbers.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();

it('makes missing parents and returns the outermost', () => {
  expect(makeFolder(place.path('a/b/c'))).toBe(place.path('a'));
  expect(statSync(place.path('a/b/c')).isDirectory()).toBe(true);
  expect(makeFolder(place.path('a/b/d'))).toBe(place.path('a/b/d'));
});

it('leaves a folder, or a link to one, as it is', () => {
  mkdirSync(place.path('there'));
  symlinkSync(place.path('there'), place.path('link'));
  expect(makeFolder(place.path('there'))).toBeUndefined();
  expect(makeFolder(place.path('link'))).toBeUndefined();
});

it('fails where a file is in the way', () => {
  writeFileSync(place.path('file'), '');
  expect(() => makeFolder(place.path('file'))).toThrow('EEXIST');
  expect(() => makeFolder(place.path('file/below'))).toThrow('ENOTDIR');
});

it.runIf(process.platform === 'linux')('fails where the file system takes no folders', () => {
  expect(() => makeFolder('/proc/none/below')).toThrow('ENOENT');
});

const checked = () => place.path('checked.json');
const value = { name: 'a\n  "sha256": "b"', files: [{ sha256: 'c', bytes: 12 }], ü: null };

it('is checked by hand as docs/formats.md says', () => {
  writeFileSync(checked(), checkedJson(value));
  const found = readCheckedJson(checked());
  found.check();
  expect(found).toMatchObject({ value, isChecked: true });
  const { sha256 } = JSON.parse(readFileSync(checked(), 'utf8'));
  const command = `grep -v '^  "sha256"' "$0" | sha256sum`;
  expect(execFileSync('sh', ['-c', command, checked()], { encoding: 'utf8' })).toBe(`${sha256}  -\n`);
});

it('any byte that is another is no JSON, or fails the check, or leaves no checksum', () => {
  const bytes = Buffer.from(checkedJson(value));
  for (let at = 0; at < bytes.length; at++) {
    for (const by of [1, 2, 16, 128]) {
      const other = Buffer.from(bytes);
      other[at]! ^= by;
      writeFileSync(checked(), other);
      const isAccepted = orElse(false, () => {
        const { isChecked, check } = readCheckedJson(checked());
        check();
        return isChecked;
      });
      expect(isAccepted, `byte ${at} ^ ${by}`).toBe(false);
    }
  }
});

it.each(['{"a":{"a":1},"b":[{"a":1},{"a":2}],"c":"\\"a\\":{"}', '{"a\\\\" : 1, "a" :{}}', '"a:"'])(
  'JSON without a key twice in one object is read: %s',
  (text) => {
    expect(parseJson(text)).toEqual(JSON.parse(text));
  },
);

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
