// Imports point one way: a file imports from its own layer or a lower one. Commands see index.ts and program.ts only.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const source = fileURLToPath(new URL('../../src', import.meta.url));

const layers: readonly (readonly string[])[] = [
  ['cli.ts'],
  ['commands'],
  ['index.ts', 'program.ts'],
  ['lab'],
  ['bench'],
  ['train', 'compare', 'report', 'evaluate', 'sample', 'doctor', 'live'],
  ['tensorboard'],
  ['runs', 'ranks'],
  ['options'],
  ['checkpoint', 'formats'],
  ['batches', 'datasets', 'optimizer'],
  ['shards', 'tokenizer', 'model'],
  ['op-cases'],
  ['ops', 'kernels'],
  ['native'],
  ['files', 'checks'],
  ['package-root.ts', 'wording.ts', 'errors.ts', 'signals.ts'],
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

const importsOf = (file: string): string[] =>
  [...readFileSync(file, 'utf8').matchAll(/(?:from|import) '([^']+)'|import\('([^']+)'\)/g)].map(
    ([, static_, dynamic]) => (static_ ?? dynamic)!,
  );
const inFolder = (folder: string): string[] => readdirSync(folder).map((name) => join(folder, name));

it('commands import index.ts and program.ts, and nothing beneath', () => {
  const beneath = inFolder(join(source, 'commands')).flatMap((file) =>
    importsOf(file).filter((name) => name.startsWith('..') && !/^\.\.\/(index|program)\.ts$/.test(name)),
  );
  expect(beneath).toEqual([]);
});

it('examples import the package alone', () => {
  const others = inFolder(fileURLToPath(new URL('../../examples', import.meta.url))).flatMap((file) =>
    importsOf(file).filter((name) => !/^(node:|gpt2\.ts$)/.test(name)),
  );
  expect(others).toEqual([]);
});

it('no name is exported by both index.ts and program.ts', () => {
  const namesOf = (file: string): string[] =>
    [...readFileSync(join(source, file), 'utf8').matchAll(/\{([^}]+)\}/g)].flatMap(([, list]) =>
      list!.split(',').map((name) => name.trim().replace(/^type /, '')),
    );
  const ofUsers = new Set(namesOf('index.ts').filter(Boolean));
  expect(ofUsers.size).toBeGreaterThan(40);
  expect(namesOf('program.ts').filter((name) => ofUsers.has(name))).toEqual([]);
});
