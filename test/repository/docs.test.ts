// Checks README, the pages of docs/ and those of the kernel course: their figures are those of benchmarks/, their links and the files they name exist.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { bestTable } from '../../scripts/docs-course.ts';
import { coursePages, pages, withFigures } from '../../scripts/docs-figures.ts';
import { optionNames } from '../../src/options/table.ts';
import { root } from '../support/built.ts';

const read = (path: string): string => readFileSync(join(root, path), 'utf8');

const folders = ['cuda', 'src', 'test', 'scripts', 'benchmarks', 'examples', 'kernels', 'docs', 'data/reference'];
const sources = new Set(
  folders
    .flatMap((folder) => readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }))
    .map((path) => basename(path)),
);

/** The name of a heading in a link, as GitHub makes it. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');

const anchorsOf = (path: string): string[] =>
  [...read(path).matchAll(/^#+ (.+)$/gm)].map((match) => anchorOf(match[1]!));

/** Files of the package: npm adds these three to `files`. */
const packed: string[] = ['README.md', 'LICENSE', 'package.json', ...JSON.parse(read('package.json')).files];
const isPacked = (path: string): boolean => packed.some((each) => path === each || path.startsWith(`${each}/`));

const ofCourse = readdirSync(join(root, 'kernels'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.md'))
  .map((path) => join('kernels', path));

describe.each([...pages(), ...ofCourse])('%s', (page) => {
  const text = read(page);
  const targets = [...text.matchAll(/\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"/g)]
    .map((match) => match[1] ?? match[2]!)
    .filter((target) => !/^[a-z]+:/.test(target));

  it('links to files that the package has', () => {
    expect(isPacked(page)).toBe(true);
    const files = targets
      .filter((target) => !target.startsWith('#'))
      .map((target) => join(dirname(page), target.split('#')[0]!));
    expect(files.filter((file) => !isPacked(file))).toEqual([]);
  });

  it.runIf([...pages(), ...coursePages()].includes(page))('has the figures of benchmarks/ (npm run docs)', () => {
    expect(withFigures(text)).toBe(text);
  });

  it('links to files and headings that exist', () => {
    const broken = targets.filter((target) => {
      const [path, anchor] = target.split('#') as [string, string | undefined];
      const file = path === '' ? page : join(dirname(page), path);
      return !existsSync(join(root, file)) || (anchor !== undefined && !anchorsOf(file).includes(anchor));
    });
    expect(broken).toEqual([]);
  });

  it('names files that exist', () => {
    const code = [...text.matchAll(/```[\s\S]*?```|^ {4}.*$|`[^`\n]+`/gm)].map((match) => match[0]).join('\n');
    // A path from the repository's root; of a pattern, the folder before it.
    const paths = [...code.matchAll(/(?<![\w./-])(?:cuda|src|test|scripts|examples|data\/reference)\/[\w./-]*/g)].map(
      ([path]) => path.replace(/[./-]+$/, ''),
    );
    // NAME stands for any.
    expect(paths.filter((path) => !path.includes('NAME') && !existsSync(join(root, path)))).toEqual([]);
    // A source file by its name alone; FILE.cu and CASES.ts stand for any.
    const names = [...code.matchAll(/(?<![\w./<-])[\w-]+(?:\.test)?\.(?:cuh?|cpp|h|ts)(?![\w.])/g)].map(([one]) => one);
    expect(names.filter((name) => !/^(gpt2\.ts|FILE\.cu|CASES\.ts)$/.test(name) && !sources.has(name))).toEqual([]);
  });
});

it('the API page lists the options of train, by the names that a program uses', () => {
  const list = read('docs/api.md').split('\n## TrainOptions\n')[1] ?? '';
  expect([...list.matchAll(/^\| `(\w+)` \| (.+) \| (.+) \|$/gm)].map(([, name]) => name)).toEqual(optionNames);
  expect(list).not.toMatch(/--[a-z]/);
});

it('a region without its end, or of unknown figures, is an error', () => {
  expect(() => withFigures('<!-- figures: ops: qkv forward -->\n')).toThrow('1 regions of figures begin, 0 end');
  expect(() => withFigures('<!-- figures: nothing -->\n<!-- end -->')).toThrow('no figures of kind "nothing"');
  expect(() => withFigures('<!-- figures: ops: no such op -->\n<!-- end -->')).toThrow('has no "no such op"');
});

it('the table of the best rungs has no column of PyTorch without its times', () => {
  const result = { rung: 'gelu/1-naive', op: 'gelu_forward', dtype: 'bf16', calls: 12, bound: 1, ours: { cold: 1 } };
  const bench = { date: '2026-11-23', device: 'GPU', codePath: 'sm90', clocks: null, batch: 64 };
  const results = [{ ...result, own: { cold: 2 } }];
  expect(bestTable({ ...bench, results })).not.toMatch(/NaN|PyTorch/);
  expect(bestTable({ ...bench, results, pytorch: '2.11.0' })).not.toContain('NaN');
  expect(bestTable({ ...bench, results: [{ ...results[0]!, pytorch: 3 }], pytorch: '2.11.0' })).toMatch(/36\.0 \|\n/);
});
