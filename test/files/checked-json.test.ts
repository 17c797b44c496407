// JSON with its own checksum: what any tool can check, and no byte of which can be another unnoticed.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { beforeAll, expect, it } from 'vitest';
import { checkedJson, readCheckedJson } from '../../src/base/files/checked-json.ts';
import { workplace } from '../support/cli.ts';

const place = workplace();
let path: string;
const value = { name: 'a\n  "sha256": "b"', files: [{ sha256: 'c', bytes: 12 }], ü: null };
beforeAll(() => {
  path = place.path('checked.json');
});

it('is checked by hand as docs/formats.md says', () => {
  writeFileSync(path, checkedJson(value));
  const found = readCheckedJson(path);
  found.check();
  expect(found).toMatchObject({ value, isChecked: true });
  const { sha256 } = JSON.parse(readFileSync(path, 'utf8'));
  const command = `grep -v '^  "sha256"' "$0" | sha256sum`;
  expect(execFileSync('sh', ['-c', command, path], { encoding: 'utf8' })).toBe(`${sha256}  -\n`);
});

it('any byte that is another is no JSON, or fails the check, or leaves no checksum', () => {
  const bytes = Buffer.from(checkedJson(value));
  for (let at = 0; at < bytes.length; at++) {
    for (const by of [1, 2, 16, 128]) {
      const other = Buffer.from(bytes);
      other[at]! ^= by;
      writeFileSync(path, other);
      const isAccepted = () => {
        try {
          const { isChecked, check } = readCheckedJson(path);
          check();
          return isChecked;
        } catch {
          return false;
        }
      };
      expect(isAccepted(), `byte ${at} ^ ${by}`).toBe(false);
    }
  }
});
