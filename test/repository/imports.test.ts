// Imports point one way. The layers, from the door down; a file may import from its own layer or from a lower one.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const source = fileURLToPath(new URL('../../src', import.meta.url));

const layers: readonly (readonly string[])[] = [
  ['cli.ts'],
  ['commands'],
  ['index.ts'],
  ['bench'],
  ['train', 'compare', 'report', 'evaluate', 'sample', 'doctor', 'live'],
  ['tensorboard'],
  ['runs', 'ranks'],
  ['options'],
  ['checkpoint', 'formats'],
  ['batches', 'datasets', 'optimizer'],
  ['shards', 'tokenizer', 'model'],
  ['op-cases'],
  ['ops'],
  ['native'],
  ['files'],
  ['package-root.ts', 'errors.ts', 'signals.ts'],
];

const place = (path: string): string => relative(source, path).split(sep)[0]!;
const layerOf = (path: string): number => layers.findIndex((layer) => layer.includes(place(path)));

const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .map((name) => join(source, name));

it.each(files.map((file) => [relative(source, file), file]))('%s imports only from below', (_, file) => {
  expect(layerOf(file), `${place(file)} is in no layer`).toBeGreaterThanOrEqual(0);
  for (const match of readFileSync(file, 'utf8').matchAll(/from '(\.[^']+)'/g)) {
    const target = join(dirname(file), match[1]!);
    expect(layerOf(target), `${relative(source, file)} imports ${relative(source, target)}`).toBeGreaterThanOrEqual(
      layerOf(file),
    );
  }
});
