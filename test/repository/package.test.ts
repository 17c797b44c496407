// The installed package: its advice and its files (scripts/test-package installs it), and that importing it changes nothing.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import packageJson from '../../package.json' with { type: 'json' };
import { packageRoot } from '../../src/base/package-root.ts';
import { asTyped, continueWith, shellWord } from '../../src/base/wording.ts';
import { loader } from '../support/built.ts';
import { spawned as run, Workplace } from '../support/cli.ts';

it.each([
  ['run `npm run build:cuda`', 'run `npm --prefix node_modules/gpt2.ts run build:cuda`'],
  ['next: npm run train -- --data data/x --steps 100', 'next: npx gpt2 train --data data/x --steps 100'],
  ['npm run prepro tinyshakespeare', 'npx gpt2 prepro tinyshakespeare'],
  ['type `npm run my-own -- --resume`', 'type `npm run my-own -- --resume`'],
  ['npm run --silent eval -- --json', 'npx gpt2 eval --json'],
  ['  npm run eval               it', '  npx gpt2 eval              it'],
  ['  npm run gpt2 -- runs x     it', '  npx gpt2 runs x            it'],
  ['  npm run --silent eval      it', '  npx gpt2 eval              it'],
  ['npm run --silent gpt2 -- doctor', 'npx gpt2 doctor'],
  ['npm run gpt2 -- replay runs/x', 'npx gpt2 replay runs/x'],
  [
    'npm run compare a b -- --plot   (npm run prepro text -- --help)',
    'npx gpt2 compare a b --plot     (npx gpt2 prepro text --help)',
  ],
])('%s', (text, installed) => {
  expect(asTyped(text, { compiled: true, installed: true })).toBe(installed);
  expect(asTyped(text, { compiled: true, installed: false })).toBe(/build:/.test(text) ? text : installed);
  expect(asTyped(text, { compiled: false, installed: false })).toBe(text);
});

it('a path in a command is one word of the shell', () => {
  for (const path of ['runs/lr=1e-3,seed=1', "it's my run", '$HOME/x;y', '*']) {
    expect(run('sh', ['-c', `printf '%s' ${shellWord(path)}`]).stdout).toBe(path);
  }
  expect(continueWith('runs/first')).toBe('continue with --out runs/first --resume');
  expect(continueWith('my runs')).toBe("continue with --out 'my runs' --resume");
});

it('every entry of package-lock.json has a hash, and none an address', () => {
  const { packages } = JSON.parse(readFileSync(join(packageRoot, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { integrity?: string; resolved?: string }>;
  };
  const { '': root, ...installed } = packages;
  expect(root).toBeDefined();
  const wrong = Object.entries(installed).filter(([, entry]) => !entry.integrity || entry.resolved);
  expect(wrong.map(([name]) => name)).toEqual([]);
});

it.each([['train'], ['gpt2', '--', '--help'], ['build'], ['test'], ['lint']])(
  'npm run %s says in one line that packages are not installed',
  (...args) => {
    using place = new Workplace();
    for (const file of ['package.json', 'scripts/tsx.mjs']) cpSync(join(packageRoot, file), place.path(file));
    const stderr = 'the packages are not installed: run `npm ci`\n';
    expect(run('npm', ['run', '--silent', ...args], { cwd: place.folder })).toMatchObject({ status: 1, stderr });
  },
);

it('npx gpt2 finds its program before a build, and says what to do', () => {
  using place = new Workplace();
  const { gpt2 } = packageJson.bin;
  const launcher = join(packageRoot, gpt2);
  expect(statSync(launcher).mode & 0o111).toBe(0o111);
  expect(run('git', ['ls-files', gpt2], { cwd: packageRoot }).stdout).toBe(`${gpt2}\n`);
  cpSync(launcher, place.path(gpt2));
  const stderr = `gpt2.ts is not built: run \`npm ci && npm run build\` in ${place.folder}/\n`;
  expect(run(process.execPath, [place.path(gpt2), 'train'])).toMatchObject({ status: 1, stderr });
});

const built = join(packageRoot, 'dist/bundle/cli.js');
/** Copies the built package to a folder, and links its dependencies in `modules`. */
function install(folder: string, modules?: string): void {
  cpSync(join(packageRoot, 'dist'), join(folder, 'dist'), { recursive: true });
  cpSync(join(packageRoot, 'package.json'), join(folder, 'package.json'));
  if (modules === undefined) return;
  mkdirSync(modules, { recursive: true });
  for (const name of Object.keys(packageJson.dependencies)) {
    symlinkSync(join(packageRoot, 'node_modules', name), join(modules, name));
  }
}

describe.skipIf(!existsSync(built))('the built program', () => {
  it('runs through its launcher', () => {
    expect(run(process.execPath, [join(packageRoot, 'bin/gpt2.js'), '--version']).stdout).toMatch(/^gpt2\.ts \d/);
  });

  it('says in a program of another package what to do without a library', () => {
    using place = new Workplace();
    install(place.path('node_modules/gpt2.ts'), place.path('node_modules'));
    const mine = place.file('mine.mjs', "import { Device } from 'gpt2.ts';\nDevice.open({ kind: 'cpu' });\n");
    const env = { ...process.env, GPT2_LIBRARY: '' };
    expect(run(process.execPath, [mine], { env }).stderr).toMatch(
      /Gpt2Error: the cpu library is not installed: there is no .*; run .*`npm --prefix node_modules\/gpt2\.ts run build:cpu`\n/,
    );
  });

  it('says in one line that packages are not installed', () => {
    using place = new Workplace();
    install(place.folder);
    const stderr = `the package commander is not installed: run \`npm ci\` in ${place.folder}\n`;
    expect(run(process.execPath, [place.path('dist/bundle/cli.js')])).toMatchObject({ status: 1, stderr });
  });

  it('says in one line which optional package a tokenizer.json needs', () => {
    using place = new Workplace();
    install(place.folder, place.path('node_modules'));
    place.file('book.txt', 'Once upon a time\n'.repeat(100));
    const file = join(packageRoot, 'test/fixtures/tokenizers/byte-level.json');
    const args = [place.path('dist/bundle/cli.js'), 'prepro', 'text', 'book.txt', '--tokenizer', file];
    const stderr = `the tokenizer ${file} needs a package that is not installed: npm install tokenizers\n`;
    expect(run(process.execPath, args, { cwd: place.folder })).toMatchObject({ status: 1, stderr });
  });
});

/** Fails to compile where an optional property of an argument of a public function refuses undefined, or events are not told apart. */
const typesProgram = `
import * as gpt2 from 'gpt2.ts';
type ArgumentOf<F> = F extends (...given: infer G) => unknown
  ? G[number]
  : F extends new (...given: infer G) => unknown ? G[number] : never;
type Given = ArgumentOf<(typeof gpt2)[keyof typeof gpt2]> | gpt2.DeviceOptions | gpt2.Format | gpt2.LaunchShape;
type Refusing<T> = T extends ArrayLike<unknown> ? never : T extends object
  ? { [K in keyof T]-?: object extends Pick<T, K> ? (undefined extends Required<T>[K] ? never : K) : never }[keyof T]
  : never;
// Methods of a card.
export const none: 'scratch' = null as unknown as Refusing<Given>;

export const lossOf = (event: gpt2.RunEvent): number | undefined => (event.event === 'train' ? event.loss : undefined);
// @ts-expect-error Only some kinds of events have a loss.
export const anyLoss = (event: gpt2.RunEvent) => event.loss;
export const hasNorm = (event: gpt2.RunEvent): 'train' | 'nonFinite' | undefined =>
  'norm' in event ? event.event : undefined;
`;

it('strict programs compile with its types, without further libraries', () => {
  using place = new Workplace();
  const tsc = (...args: string[]) => {
    const { status, stdout } = run(join(packageRoot, 'node_modules/.bin/tsc'), args, { cwd: place.folder });
    expect(status, stdout).toBe(0);
    return stdout.split('\n');
  };
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess'];
  const settings = [...strict, '--module', 'nodenext', '--target', 'es2022', '--noEmit'];
  const installed = place.path('node_modules/gpt2.ts');
  tsc('-p', join(packageRoot, 'tsconfig.build.json'), '--emitDeclarationOnly', '--outDir', join(installed, 'dist'));
  cpSync(join(packageRoot, 'package.json'), join(installed, 'package.json'));
  symlinkSync(join(packageRoot, 'node_modules/zod'), place.path('node_modules/zod'));
  place.file('types.mts', typesProgram);
  const read = tsc(...settings, '--skipLibCheck', 'false', '--listFiles', 'types.mts');
  // TypeScript 5.6 and earlier have no generic typed arrays.
  const isNew = (file: string) => file.includes(installed) && /(Int|Float)\d+Array</.test(readFileSync(file, 'utf8'));
  expect(read.filter(isNew)).toEqual([]);
  symlinkSync(join(packageRoot, 'node_modules/@types'), place.path('node_modules/@types'));
  cpSync(join(packageRoot, 'examples'), place.path('examples'), { recursive: true });
  place.file('package.json', '{ "type": "module" }');
  tsc(...settings, '--types', 'node', ...readdirSync(place.path('examples')).map((name) => join('examples', name)));
});

it('a program that imports the package and a card keeps its handlers and its resolver', () => {
  using place = new Workplace();
  place.file('card/define.mjs', "export { defineKernel } from 'gpt2.ts';");
  const card = "import { defineKernel } from './define.mjs';\nimport * as gpt2 from 'gpt2.ts';\n";
  const defined =
    "defineKernel({ op: 'gelu_forward', source: gpt2.version ?? 'a.cu', launches: () => [] as never[] });";
  place.file('card/card.ts', `${card}export default ${defined}\n`);
  place.file('other.mjs', "export * from 'gpt2.ts';");
  const script = `
    const handlers = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);
    const before = handlers();
    const { loadCards } = await import('${new URL('../../src/index.ts', import.meta.url)}');
    const [card] = await loadCards('card');
    const found = await import('./other.mjs').then(() => 'found', ({ code }) => code);
    console.log(JSON.stringify([card.op, found, before, handlers()]));
  `;
  const program = place.file('program.mjs', script);
  const { stdout, stderr } = run(process.execPath, ['--import', loader, program], { cwd: place.folder });
  expect(stderr).toBe('');
  const [op, found, before, after] = JSON.parse(stdout);
  expect([op, found]).toEqual(['gelu_forward', 'ERR_MODULE_NOT_FOUND']);
  expect(after).toEqual(before);
});
