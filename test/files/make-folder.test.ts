import { mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { makeFolder } from '../../src/base/files/make-folder.ts';

const place = mkdtempSync(join(tmpdir(), 'gpt2-'));
afterAll(() => rmSync(place, { recursive: true }));

it('makes missing parents and returns the outermost', () => {
  expect(makeFolder(join(place, 'a/b/c'))).toBe(join(place, 'a'));
  expect(statSync(join(place, 'a/b/c')).isDirectory()).toBe(true);
  expect(makeFolder(join(place, 'a/b/d'))).toBe(join(place, 'a/b/d'));
});

it('leaves a folder, or a link to one, as it is', () => {
  mkdirSync(join(place, 'there'));
  symlinkSync(join(place, 'there'), join(place, 'link'));
  expect(makeFolder(join(place, 'there'))).toBeUndefined();
  expect(makeFolder(join(place, 'link'))).toBeUndefined();
});

it('fails where a file is in the way', () => {
  writeFileSync(join(place, 'file'), '');
  expect(() => makeFolder(join(place, 'file'))).toThrow('EEXIST');
  expect(() => makeFolder(join(place, 'file/below'))).toThrow('ENOTDIR');
});

it.runIf(process.platform === 'linux')('fails where the file system takes no folders', () => {
  expect(() => makeFolder('/proc/none/below')).toThrow('ENOENT');
});
