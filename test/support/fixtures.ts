// Reads what scripts/record-pytorch-reference.py recorded: tensors by key, and the JSON beside them.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { packageRoot } from '../../src/base/package-root.ts';

const pathOf = (name: string) => join(packageRoot, 'test/fixtures', name);

interface FixtureTensor {
  readonly shape: readonly number[];
  readonly values: Float32Array | Int32Array;
}

export function readFixtureJson<T>(name: string): T {
  return JSON.parse(readFileSync(pathOf(name), 'utf8')) as T;
}

/** All tensors of a fixture file, by key. */
export function readFixture(name: string): { get(key: string): FixtureTensor } {
  const file = readFileSync(pathOf(name));
  const headerBytes = Number(file.readBigUInt64LE(0));
  const header = JSON.parse(file.toString('utf8', 8, 8 + headerBytes)) as Record<
    string,
    { dtype: 'F32' | 'I32'; shape: number[]; data_offsets: [number, number] }
  >;
  return {
    get(key) {
      const entry = header[key];
      if (!entry) throw new Error(`${name} has no ${key}`);
      const [from, to] = entry.data_offsets.map((offset) => 8 + headerBytes + offset) as [number, number];
      const bytes = Uint8Array.from(file.subarray(from, to)).buffer;
      return { shape: entry.shape, values: entry.dtype === 'F32' ? new Float32Array(bytes) : new Int32Array(bytes) };
    },
  };
}
