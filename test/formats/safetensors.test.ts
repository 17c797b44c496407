// The safetensors format, written and read; and files that claim what is not so, each refused in one line.
import { createHash } from 'node:crypto';
import { readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { openSafetensors, writeSafetensors } from '../../src/weights/files/safetensors.ts';
import { temporaryFolders } from '../checkpoint/trained-model.ts';
import { refusalOf } from '../support/refusal.ts';

const newFolder = temporaryFolders();

const tensor = (name: string, shape: number[], values: Float32Array) => ({ name, shape, read: () => values });

/** A file of a header and so many bytes of data. */
function fileOf(header: unknown, dataBytes: number, claimedBytes?: bigint): string {
  const text = Buffer.from(typeof header === 'string' ? header : JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(claimedBytes ?? BigInt(text.length));
  const path = join(newFolder(), 'hostile.safetensors');
  writeFileSync(path, Buffer.concat([length, text, Buffer.alloc(dataBytes, 1)]));
  return path;
}

const f32 = (shape: number[], from: number, to: number) => ({ dtype: 'F32', shape, data_offsets: [from, to] });

describe('a written file', () => {
  it('is read back bit for bit, with the hash and size that were reported', () => {
    const values = new Float32Array([1, -0, Number.NaN, Number.POSITIVE_INFINITY, 1e-45, 3.5]);
    const path = join(newFolder(), 'a.safetensors');
    const written = writeSafetensors(path, [
      tensor('wte.weight', [2, 3], values),
      tensor('empty', [0, 7], new Float32Array(0)),
      tensor('scalar', [], new Float32Array([7])),
    ]);
    const content = readFileSync(path);
    expect(written).toEqual({ bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') });
    using file = openSafetensors(path);
    expect(file.names).toEqual(['wte.weight', 'empty', 'scalar']);
    expect(file.shape('wte.weight')).toEqual([2, 3]);
    expect(new Uint8Array(file.read('wte.weight').buffer)).toEqual(new Uint8Array(values.buffer));
    expect(file.read('empty').length).toBe(0);
    expect([...file.read('scalar')]).toEqual([7]);
  });

  it('begins its data on 8 bytes and says what transformers asks for', () => {
    const path = join(newFolder(), 'a.safetensors');
    writeSafetensors(path, [tensor('x', [1], new Float32Array(1))]);
    const content = readFileSync(path);
    const headerBytes = Number(content.readBigUInt64LE(0));
    expect(headerBytes % 8).toBe(0);
    const header = JSON.parse(content.toString('utf8', 8, 8 + headerBytes));
    expect(header).toEqual({ __metadata__: { format: 'pt' }, x: f32([1], 0, 4) });
  });

  it('holds any tensors, and any part of a larger array', () => {
    const name = fc.string({ unit: 'binary', minLength: 1 });
    const usable = name.filter((each) => each !== '__metadata__' && each !== '__proto__');
    const names = fc.uniqueArray(usable, { maxLength: 6 });
    fc.assert(
      fc.property(names, fc.array(fc.float(), { maxLength: 40 }), (unique, numbers) => {
        const all = Float32Array.from(numbers);
        const given = unique.map((name, index) => {
          const values = all.subarray(Math.min(index, all.length));
          return tensor(name, [values.length, 1], values);
        });
        const distinct = given.filter(({ name }, index) => given.findIndex((other) => other.name === name) === index);
        const path = join(newFolder(), 'a.safetensors');
        writeSafetensors(path, distinct);
        using file = openSafetensors(path);
        for (const { name, read } of distinct) expect(file.read(name)).toEqual(read());
      }),
    );
  });

  it('asks for one tensor at a time, in order', () => {
    const asked: string[] = [];
    const tensors = ['a', 'b', 'c'].map((name) => ({
      name,
      shape: [2],
      read: () => {
        asked.push(name);
        return new Float32Array(2);
      },
    }));
    writeSafetensors(join(newFolder(), 'a.safetensors'), tensors);
    expect(asked).toEqual(['a', 'b', 'c']);
  });

  it('never replaces another, and takes no name twice', () => {
    const path = join(newFolder(), 'a.safetensors');
    writeSafetensors(path, []);
    expect(() => writeSafetensors(path, [])).toThrow(/EEXIST/);
    const twice = [tensor('x', [1], new Float32Array(1)), tensor('x', [1], new Float32Array(1))];
    expect(() => writeSafetensors(join(newFolder(), 'b'), twice)).toThrow('two tensors are called x');
  });
});

/** Opens a file, which has two numbers x, and reads x after a change of the file. */
function readX(path: string, change: (path: string) => void = () => {}): void {
  using file = openSafetensors(path);
  expect(file.shape('x')).toEqual([2]);
  change(path);
  file.read('x');
}

describe('a file that is refused', () => {
  const f64 = { dtype: 'F64', shape: [2], data_offsets: [0, 16] };
  const two = () => fileOf({ x: f32([2], 0, 8) }, 8);
  const short = () => {
    const path = join(newFolder(), 'short');
    writeFileSync(path, 'abc');
    return path;
  };
  it.each<[string, () => string, string, use?: (path: string) => void]>([
    ['a header longer than the file', () => fileOf({}, 4, 1000n), 'its header claims 1000 bytes; the file has 14'],
    ['a header of 2^64 - 1 bytes', () => fileOf({}, 4, 2n ** 64n - 1n), 'its header claims'],
    ['a header of 90 MB', () => fileOf(`{}${' '.repeat(90e6)}`, 0), 'claims 90000002 bytes; the file has 90000010'],
    ['a header that is no JSON', () => fileOf('{"a":', 0), 'not JSON'],
    ['a tensor twice', () => fileOf('{"x":{},"\\u0078":{}}', 0), 'not JSON: it has the key "x" twice in one object'],
    ['a header that is no object', () => fileOf([], 0), 'not a JSON object'],
    ['a header that is null', () => fileOf('null', 0), 'not a JSON object'],
    ['a tensor beyond the data', () => fileOf({ x: f32([2], 0, 8) }, 4), 'x is at 0 to 8 of 4 bytes'],
    ['a tensor that ends before it begins', () => fileOf({ x: f32([1], 4, 0) }, 4), 'x is at 4 to 0'],
    ['a shape that is too large', () => fileOf({ x: f32([3], 0, 4) }, 4), 'x [3] has 4 bytes'],
    ['a shape beyond all numbers', () => fileOf({ x: f32([2 ** 52, 2 ** 52], 0, 4) }, 4), 'has 4 bytes'],
    ['a shape of a zero and the rest', () => fileOf({ x: f32([0, 2 ** 52], 0, 4) }, 4), 'has 4 bytes'],
    ['a shape that is negative', () => fileOf({ x: f32([-1], 0, 4) }, 4), 'the entry of x is malformed'],
    ['an offset that is no number', () => fileOf({ x: { ...f32([1], 0, 4), data_offsets: [0, '4'] } }, 4), 'malformed'],
    ['an overlap', () => fileOf({ x: f32([2], 0, 8), y: f32([1], 4, 8) }, 8), 'y overlaps the tensor before it'],
    ['a gap', () => fileOf({ x: f32([1], 0, 4), y: f32([1], 8, 12) }, 12), '4 bytes before y belong to no tensor'],
    ['bytes behind the last', () => fileOf({ x: f32([1], 0, 4) }, 6), '2 bytes at its end belong to no tensor'],
    ['a name of lines', () => fileOf({ 'a\nb\u001b[31m': f32([3], 0, 4) }, 4), '"a\\nb\\u001b[31m" [3] has 4 bytes'],
    ['a name without end', () => fileOf({ [`n${'m'.repeat(5000)}`]: f32([3], 0, 4) }, 4), 'has 4 bytes'],
    ['a prototype', () => fileOf('{"__proto__":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}', 4), '__proto__ [9]'],
    ['a folder', () => newFolder(), 'it is not a regular file'],
    ['a file that is not there', () => join(newFolder(), 'none'), 'cannot be opened'],
    ['one of 3 bytes', short, 'it has 3 bytes'],
    [
      'another dtype, when it is read',
      () => fileOf({ x: f64 }, 16),
      'x is F64; only F32, F16, BF16 can be read',
      readX,
    ],
    ['a tensor it has not', two, 'has no tensor toString', (path) => openSafetensors(path).read('toString')],
    ['one that vanished after it was opened', two, 'ended early', (path) => readX(path, (p) => truncateSync(p, 20))],
  ])('%s', (_, make, wanted, use = (path) => openSafetensors(path)[Symbol.dispose]()) => {
    const path = make();
    const message = refusalOf(() => use(path)) ?? 'it was opened';
    expect(message).not.toContain('\n');
    expect(message.length).toBeLessThan(400);
    expect(message).toContain(path);
    expect(message).toContain(wanted);
  });
});
