// The generated bindings are those of today's header, and the library exports exactly the header's functions.
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { generateBindings } from '../../scripts/generate-bindings.ts';
import { signatures } from '../../src/native/bindings.generated.ts';
import { libraryPath } from '../../src/native/library.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

it('bindings.generated.ts is fresh (npm run generate)', () => {
  expect(read('src/native/bindings.generated.ts')).toBe(generateBindings(read('cuda/gpt2.h')));
});

it('a function the generator cannot read is an error, not a gap', () => {
  expect(() => generateBindings(`${read('cuda/gpt2.h')}\nGPT2_API int gpt2_odd(double x);\n`)).toThrow('double x');
});

for (const kind of ['cpu', 'cuda'] as const) {
  it.skipIf(!existsSync(libraryPath(kind)))(`libgpt2-${kind} exports exactly the header's functions`, () => {
    const symbols = execFileSync('nm', ['-D', '--defined-only', libraryPath(kind)], { encoding: 'utf8' });
    const exported = [...symbols.matchAll(/ T (gpt2_\w+)/g)].map((match) => match[1]).sort();
    expect(exported).toEqual(
      Object.values(signatures)
        .map(({ symbol }) => symbol)
        .sort(),
    );
  });
}
