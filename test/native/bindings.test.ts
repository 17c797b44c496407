// The generated files are those of today's header, a line that cannot be read is an error, and the libraries export exactly
// the header's functions.
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { generate } from '../../scripts/generate/index.ts';
import { packageRoot } from '../../src/base/package-root.ts';
import { signatures } from '../../src/native/bindings.generated.ts';
import { libraryPath } from '../../src/native/find-library.ts';
import { workplace } from '../support/cli.ts';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const header = read('cuda/gpt2.h');

const place = workplace();
// In a copy without generated files: a new op's functions are missing when an optimizer that needs them is imported.
beforeAll(() => {
  const filter = (path: string) => !path.includes('.generated.');
  for (const name of ['src', 'scripts', 'cuda', 'package.json'])
    cpSync(join(packageRoot, name), place.path(name), { recursive: true, filter });
  symlinkSync(join(packageRoot, 'node_modules'), place.path('node_modules'));
  execFileSync(process.execPath, ['--import', './scripts/tsx.mjs', 'scripts/generate/index.ts'], { cwd: place.folder });
});

const generated = [...Object.keys(generate(header)), 'src/options/train-options.generated.ts'];
it.each(generated)('%s is fresh (npm run generate)', (path) => {
  expect(read(path)).toBe(readFileSync(place.path(path), 'utf8'));
});

describe('the header', () => {
  it('with a function that cannot be read is an error, not a gap', () => {
    expect(() => generate(header.replace('GPT2_API int gpt2_free(', 'GPT2_API int gpt2_odd(double x);\n$&'))).toThrow(
      'double x',
    );
  });

  const changed = (from: string, to: string): string => {
    expect(header).toContain(from);
    return header.replace(from, to);
  };
  const row = 'rstd = [N], in';
  const columnwise = 'columnwise = [C,N/16,16]';
  const isNull = 'with columnwise,';
  const scratch = 'rstd [N]; workspace (N,C)';
  const relation = 'targets [N] < V or -1; V <= Vp */';
  const isNullWith = 'columnwise_scale is NULL with';
  type Row = [what: string, from: string, to: string, message: string];
  it.each<Row>([
    ['a line without brackets', row, 'rstd = N, in', 'gpt2_norm_forward: cannot read "rstd = N"'],
    ['an unknown access', row, 'rstd (held) [N], in', '"(held)" in "rstd (held) [N]" is no access'],
    ['an unknown dimension', row, 'rstd = [M], in', '"rstd [M]" names M, which is no parameter'],
    ['a dimension that is no expression', row, 'rstd = [N-1], in', 'the dimension "N-1"'],
    ['a quotient without a divisor', columnwise, 'columnwise = [C,N/,16]', 'the dimension "N/"'],
    ['a number that is divided', columnwise, 'columnwise = [C,16/N,16]', 'the dimension "16/N"'],
    ['a quotient of an unknown size', columnwise, 'columnwise = [C,M/16,16]', 'names M, which is no'],
    ['a quotient by 0', columnwise, 'columnwise = [C,N/0,16]', '"N/0" divides by 0'],
    ['a quotient by constant 0', columnwise, 'columnwise = [C,N/GPT2_FP8_SCALE,16]', '"N/GPT2_FP8_SCALE" divides by 0'],
    ['a sum of sizes', columnwise, 'columnwise = [C,N+C,16]', 'the dimension "N+C"'],
    ['a quotient by an unknown size', columnwise, 'columnwise = [C,N/M,16]', 'names M, which is no'],
    ['a NULL with none', isNull, 'with,', 'cannot read "columnwise_scale = [N/GPT2_FP8_BLOCK] with"'],
    ['a NULL with an unknown tensor', isNull, 'with columns,', 'names columns, which is no parameter'],
    ['NULL with a size', isNull, 'with N,', `${isNullWith} N, which is not another tensor that is "or NULL" by itself`],
    ['a NULL with a required tensor', isNull, 'with weight,', `${isNullWith} weight, which is not`],
    ['a NULL with itself', isNull, 'with columnwise_scale,', `${isNullWith} columnwise_scale, which is not`],
    ['a NULL with a third', `${isNull} weight`, 'with columnwise_scale, weight', 'norm is NULL with columnwise_scale'],
    ...[
      ['or NULL where M == 1', 'names M, which is no parameter'],
      ['or NULL where C == NULL', 'cannot read "where C == NULL" of columnwise_scale'],
      ['or NULL where C == GPT2_NONE', 'cannot read "where C == GPT2_NONE" of columnwise_scale'],
      ['or NULL where values == 1', 'cannot read "where values == 1" of columnwise_scale'],
      ['with columnwise where C == 1', 'cannot read "where C == 1" of columnwise_scale'],
      ['or NULL with columnwise', 'cannot read "columnwise_scale = [N/GPT2_FP8_BLOCK] or NULL with columnwise"'],
      ['or NULL where C < 1', 'cannot read "columnwise_scale = [N/GPT2_FP8_BLOCK] or NULL where C < 1"'],
    ].map(([condition, message]): Row => [`a condition ${condition}`, isNull, `${condition},`, message!]),
    ['columns of an unknown size', 'first 2C, rstd', 'first 2M, rstd', 'names M, which is no parameter'],
    ['a missing tensor', row, 'in', 'the lines name out, values, scale, norm, mean, in'],
    ['tensors in another order', `${row} [N,C]`, 'in [N,C], rstd = [N]', 'norm, mean, in, rstd'],
    ['an output that is const', 'rstd = [N], in [N,C]', 'rstd = [N], in = [N,C]', '"in = [N,C]" is const'],
    ['an input that is not const', row, 'rstd [N], in', '"rstd [N]" is not const'],
    ['an unknown alias', 'may be dout or dresidual', 'may be dout or dres', 'names dres, which is no parameter'],
    ['a relation of an unknown size', relation, 'targets [N] < V; V <= W */', 'names W'],
    ['a relation that is no expression', relation, 'targets [N] < V; V ~ Vp */', 'cannot read "V ~ Vp"'],
    ['an unknown scratch function', scratch, 'rstd [N]; workspace gpt2_no_scratch(N)', 'no gpt2_no_scratch'],
    ['a scratch function with other sizes', scratch, 'rstd [N]; workspace (N)', 'gpt2_norm_scratch takes 2 sizes'],
  ])('with %s is an error', (_, from, to, message) => {
    expect(() => generate(changed(from, to))).toThrow(message);
  });
});

for (const kind of ['cpu', 'cuda'] as const) {
  it.skipIf(!existsSync(libraryPath(kind)))(`libgpt2-${kind} exports exactly the header's functions`, () => {
    const symbols = execFileSync('nm', ['-D', '--defined-only', libraryPath(kind)], { encoding: 'utf8' });
    const exported = [...symbols.matchAll(/ T (gpt2_\w+)/g)].map((match) => match[1]).sort();
    const declared = Object.values(signatures).map(({ symbol }) => symbol);
    expect(exported).toEqual(declared.sort());
  });
}
